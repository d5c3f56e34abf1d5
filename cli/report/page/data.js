
// What the report says, as rows: one for each result. Everything here comes from files of any origin:
// a number is used only where there is one, and texts become text nodes, never HTML.

const report = JSON.parse(document.getElementById('data').textContent);

/// The finite number at a path of keys, else null.
function numberAt(value, ...path) {
  for (const key of path) {
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, key)) return null;
    value = value[key];
  }
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/// The array at a path of keys, else an empty one.
function listAt(value, ...path) {
  for (const key of path) {
    if (value === null || typeof value !== 'object' || !Object.hasOwn(value, key)) return [];
    value = value[key];
  }
  return Array.isArray(value) ? value : [];
}

function textAt(value, key) {
  return value !== null && typeof value === 'object' && typeof value[key] === 'string' ? value[key] : '';
}

/// The names and numbers of an object that holds numbers, those above zero.
function partsAt(result, key) {
  const parts = result[key];
  if (parts === null || typeof parts !== 'object' || Array.isArray(parts)) return [];
  return Object.keys(parts).map((name) => [name, numberAt(parts, name)]).filter(([, value]) => value > 0);
}

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);
const scaled = (value, factor) => (value === null ? null : value * factor);
const shareOf = (part, whole) => (part === null || !(whole > 0) ? null : (100 * part) / whole);

/// A layer's or a run's experts by the state they were found in; null where no states were looked up.
function shareFound(result, states) {
  const found = partsAt(result, 'decode_hits');
  return shareOf(sumOf(found.filter(([state]) => states.includes(state)).map(([, n]) => n)), sumOf(found.map(([, n]) => n)));
}

function overServers(result, key) {
  const servers = listAt(result, 'cluster', 'servers');
  return servers.length === 0 ? null : sumOf(servers.map((server) => numberAt(server, key) ?? 0));
}

function memoryOf(result, ...keys) {
  for (const plan of ['memory_bytes', 'memory_bytes_a_gpu']) {
    for (const key of keys) {
      const bytes = numberAt(result, plan, key);
      if (bytes !== null) return bytes;
    }
  }
  return null;
}

/// Memory that the experts of a system take for good, on all servers of a cluster.
function expertMemory(result) {
  return overServers(result, 'expert_bytes') ?? memoryOf(result, 'expert_cache', 'stored_experts');
}

function meanAccuracy(result) {
  const datasets = result.expected_accuracy_percent?.datasets;
  if (datasets === null || typeof datasets !== 'object') return null;
  const values = Object.keys(datasets).map((name) => numberAt(datasets, name, 'expected')).filter((v) => v !== null);
  return values.length === 0 ? null : sumOf(values) / values.length;
}

function localShare(result) {
  const local = overServers(result, 'local_activations');
  return local === null ? null : shareOf(local, local + overServers(result, 'remote_activations'));
}

/// Percentiles of single gaps between tokens: a result without a format says "tpot_s" of them.
function gap(result, percentile) {
  return scaled(numberAt(result, 'metrics', result.result_format >= 2 ? 'itl_s' : 'tpot_s', percentile), 1e3);
}

// What is shown of a result, in the order of the table's columns. better: -1 the least, 1 the most, 0 neither.
const metrics = [
  { key: 'ttft', name: 'TTFT', unit: 's', better: -1, of: (r) => numberAt(r, 'metrics', 'ttft_s') },
  { key: 'tpot', name: 'TPOT', unit: 'ms', better: -1, of: (r) => scaled(numberAt(r, 'metrics', 'tpot_s', 'mean'), 1e3) },
  { key: 'itl_p50', name: 'ITL p50', unit: 'ms', better: -1, of: (r) => gap(r, 'p50') },
  { key: 'itl_p90', name: 'ITL p90', unit: 'ms', better: -1, of: (r) => gap(r, 'p90') },
  { key: 'itl_p99', name: 'ITL p99', unit: 'ms', better: -1, of: (r) => gap(r, 'p99') },
  { key: 'throughput', name: 'Throughput', unit: 'tokens/s', better: 1, of: (r) => numberAt(r, 'metrics', 'throughput_tokens_per_s') },
  { key: 'latency', name: 'Request latency', unit: 's', better: -1, of: (r) => numberAt(r, 'metrics', 'end_to_end_s') },
  { key: 'latency_p90', name: 'Request latency p90', unit: 's', better: -1, of: (r) => numberAt(r, 'metrics', 'end_to_end_p90_s') },
  { key: 'failed', name: 'Requests failed', unit: '%', better: -1, of: (r) => shareOf(numberAt(r, 'metrics', 'failed_requests'), numberAt(r, 'metrics', 'asked_requests')) },
  { key: 'ready', name: 'Found in full', unit: '%', better: 1, of: (r) => shareFound(r, ['F']) },
  { key: 'missing', name: 'Missing', unit: '%', better: -1, of: (r) => shareFound(r, ['M']) },
  { key: 'local', name: 'Called at home', unit: '%', better: 1, of: localShare },
  { key: 'network', name: 'Network', unit: 'GB', better: -1, of: (r) => scaled(overServers(r, 'network_bytes'), 1e-9) },
  { key: 'kv', name: 'KV cache peak', unit: '%', better: 0, of: (r) => scaled(numberAt(r, 'serving', 'most_kv_use'), 100) },
  { key: 'accuracy', name: 'Expected accuracy', unit: '%', better: 1, of: meanAccuracy },
  { key: 'budget', name: 'Memory budget', unit: 'GB', better: 0, of: (r) => scaled(memoryOf(r, 'budget'), 1e-9) },
  { key: 'experts', name: 'Experts in memory', unit: 'GB', better: 0, of: (r) => scaled(expertMemory(r), 1e-9) },
  { key: 'ssd', name: 'Read from SSD', unit: 'GB', better: -1, of: (r) => scaled(numberAt(r, 'bytes', 'ssd'), 1e-9) },
  { key: 'page_cache', name: 'Read from page cache', unit: 'GB', better: -1, of: (r) => scaled(numberAt(r, 'bytes', 'page_cache'), 1e-9) },
  { key: 'host', name: 'Read from host memory', unit: 'GB', better: -1, of: (r) => scaled(numberAt(r, 'bytes', 'host'), 1e-9) },
];
const titleOf = (metric) => `${metric.name}, ${metric.unit}`;

/// Nothing was run where memory falls short: its times are none.
const wasRun = (result) => !(memoryOf(result, 'shortfall') > 0);

const rows = report.points.map((point, index) => {
  const result = point.result !== null && typeof point.result === 'object' ? point.result : {};
  const ran = wasRun(result);
  const values = Object.fromEntries(
    metrics.map((metric) => [metric.key, ran || metric.better === 0 ? metric.of(result) : null]));
  return { index, axes: new Map(point.axes), series: point.series, oracle: point.oracle === true, result, values };
});
/// By scenario, of results on clusters: the least share of requests that failed.
const leastFailed = new Map();
for (const { result, values } of rows.filter(({ values }) => values.failed !== null)) {
  const scenario = textAt(result, 'scenario');
  leastFailed.set(scenario, Math.min(leastFailed.get(scenario) ?? values.failed, values.failed));
}
/// A result in which more of them fail is not the best: its times are of the others.
for (const row of rows) row.failsMore = row.values.failed !== null && row.values.failed > leastFailed.get(textAt(row.result, 'scenario'));
/// Metrics that some result has, and not only as zero.
const knownMetrics = metrics.filter((metric) => rows.some((row) => row.values[metric.key]));
const metricOf = (key) => knownMetrics.find((metric) => metric.key === key);

const unique = (values) => [...new Set(values)];
const seriesNames = unique(rows.map((row) => row.series));
/// Series of which every result knows the future or try everything: bounds of the others, not their rivals.
const oracleNames = new Set(seriesNames.filter((series) => rows.every((row) => row.series !== series || row.oracle)));
const nameOfSeries = (series) => (oracleNames.has(series) ? `${series} (oracle)` : series);
const axisNames = rows.length === 0 ? [] : [...rows[0].axes.keys()];

const unitFactors = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, m: 1e-3, u: 1e-6, n: 1e-9, '': 1 };

/// "16 GB" -> {number: 16e9, unit: 'B'}; null for what is no number with or without a unit.
function quantityOf(text) {
  const match = /^([+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(k|Ki|[MGT]i?|m|u|n|)(B\/s|B|s|bit\/s|token\/s|)$/i.exec(text.trim());
  if (!match) return null;
  const number = Number(match[1]) * (unitFactors[match[3] === '' ? '' : match[2]] ?? NaN);
  return Number.isFinite(number) && (match[3] !== '' || match[2] === '') ? { number, unit: match[3] } : null;
}

/// The numbers of an axis and their unit, if every value has one and the units agree; else null.
function quantitiesOf(axis) {
  const values = unique(rows.map((row) => row.axes.get(axis)));
  const quantities = values.map(quantityOf);
  if (quantities.some((q) => q === null || q.unit !== quantities[0].unit)) return null;
  const giga = quantities[0].unit.startsWith('B');
  return { of: new Map(values.map((value, i) => [value, quantities[i].number * (giga ? 1e-9 : 1)])),
           unit: giga ? `G${quantities[0].unit}` : quantities[0].unit };
}

/// The values of an axis: in the order of their numbers where they are some, else as they come.
function valuesOf(axis) {
  const values = unique(rows.map((row) => row.axes.get(axis)));
  const numbers = quantitiesOf(axis);
  return numbers === null ? values : values.sort((a, b) => numbers.of.get(a) - numbers.of.get(b));
}

/// A row's name among others: its series and, where that does not tell it apart, the values of axes in which they differ.
function labelsOf(some, without = []) {
  const series = unique(some.map((row) => row.series));
  if (series.length === some.length) return new Map(some.map((row) => [row, nameOfSeries(row.series)]));
  const axes = axisNames.filter((axis) => !without.includes(axis) && unique(some.map((row) => row.axes.get(axis))).length > 1);
  const named = series.length > 1 || axes.length === 0;
  return new Map(some.map((row) => [row, [...(named ? [nameOfSeries(row.series)] : []), ...axes.map((axis) => row.axes.get(axis))].join(' · ')]));
}

const meanOf = (values) => sumOf(values) / values.length;

/// Rows that are repeats of each other, with other seeds, together: {row: the first, repeats: all}.
function overSeeds(some) {
  const groups = new Map();
  for (const row of some) {
    const name = JSON.stringify([row.series, ...axisNames.filter((axis) => axis !== 'seed').map((axis) => row.axes.get(axis))]);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return [...groups.values()].map((repeats) => ({ row: repeats[0], repeats }));
}

/// The mean and the extremes of a metric over those of some repeats that have it, and how many they are; null where none has.
function spreadOf(repeats, key) {
  const values = repeats.map((one) => one.values[key]).filter((value) => value !== null);
  if (values.length === 0) return null;
  return { mean: meanOf(values), low: Math.min(...values), high: Math.max(...values), repeats: values.length };
}

/// The spread of a metric for each of the results, repeats together: {row: the first that has it, mean, low, high, repeats}.
function meansOf(some, key) {
  return overSeeds(some.filter((row) => row.values[key] !== null)).map(({ row, repeats }) => ({ row, ...spreadOf(repeats, key) }));
}

/// {name, value, ...} lists of repeats, as one list of means; a part that a repeat does not have counts as 0 there.
function meanParts(lists) {
  const parts = new Map();
  for (const part of lists.flat()) parts.set(part.name, { ...part, value: (parts.get(part.name)?.value ?? 0) + part.value / lists.length });
  return [...parts.values()];
}

/// A number with three digits or more that say something.
function shortNumber(value, digits = 3) {
  if (value === null || value === undefined) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(digits - 1);
  return value.toLocaleString('en', { maximumFractionDigits: Math.max(0, digits - 1 - Math.floor(Math.log10(size))), useGrouping: false });
}
const withUnit = (value, metric) => (value === null ? '–' : `${shortNumber(value)} ${metric.unit}`);
