
// The charts: each says whether it has anything to draw, what can be chosen, and makes of rows a Vega specification (or
// several: small multiples), a legend, a sentence for those who do not see it, and its numbers as a table.

/// "Least: a, 3 ms; most: b, 5 ms."
function extremes(data, metric) {
  if (data.length < 2) return '';
  const sorted = [...data].sort((a, b) => a.value - b.value);
  const say = ({ label, value }) => `${label} (${withUnit(value, metric)})`;
  return `Least: ${say(sorted[0])}. Most: ${say(sorted[sorted.length - 1])}.`;
}

const isWide = (values) => values.length > 1 && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > wideRange;

/// Bars of these data ({label, value, low, high, look, tip}); those beyond `mostBars` are left out.
function barsDrawing(data, metric, choice, { colours, width }, legend) {
  const log = choice.log === null ? isWide(data.map(({ value }) => value)) : choice.log && data.every(({ low }) => low > 0);
  const labels = distinctLabels(data.map(({ label }) => label));
  const bars = data.slice(0, mostBars).map((bar, i) => ({ opacity: barOpacity, ...bar, label: labels[i], colour: bar.look.colour, number: shortNumber(bar.value) }));
  const sentence = extremes(data, metric);
  return {
    spec: barSpec({ bars, title: titleOf(metric), log, colours, width, description: `Bars: ${titleOf(metric)}. ${sentence}` }),
    log, legend, sentence: sentence + firstOf(mostBars, data.length),
    head: ['', titleOf(metric)], body: data.map((bar, i) => [labels[i], bar.value]),
  };
}

function seriesLegend(some, colours) {
  return unique(some.map((row) => row.series)).map((name) => ({ name: nameOfSeries(name), ...lookOfSystem(name, colours) }));
}

const mostPanels = 12, panelWidth = 270;
/// The axis that curves are drawn over until another is chosen, "" where none is of numbers.
const overUsually = axisNames.find((axis) => quantitiesOf(axis) !== null && axis !== 'seed') ?? '';

const axisTitle = (axis, numbers) => (numbers.unit === '' ? axis : `${axis}, ${numbers.unit}`);

/// How small multiples stand: in how many columns, and how large each is, in pixels.
function panelSizes(count, width) {
  const columns = count === 1 ? 1 : Math.max(1, Math.min(count, Math.floor(width / panelWidth)));
  return { columns, width: Math.floor((width - 16 * (columns - 1)) / columns), height: count > 1 ? 220 : 320 };
}

/// name -> look: of the series where each name is one series, else of its own.
function looksOf(means, labels, colours) {
  const names = unique(means.map(({ row }) => labels.get(row)));
  const bySeries = names.length === unique(means.map(({ row }) => row.series)).length;
  return new Map(names.map((name, i) => {
    const { row } = means.find((one) => labels.get(one.row) === name);
    return [name, bySeries ? lookOfSystem(row.series, colours) : lookOf(i, colours)];
  }));
}

// One metric, by system or over an axis, in one chart or small multiples.
const compareChart = {
  id: 'compare', title: 'Compare', wide: true, log: true,
  applies: (some) => knownMetrics.length > 0 && some.length > 0,
  choices: () => [
    { key: 'metric', label: 'Metric', options: knownMetrics.map((metric) => [metric.key, titleOf(metric)]),
      chosen: (knownMetrics.find(({ key }) => key === (rows.some((row) => localShare(row.result) !== null) ? 'latency' : 'tpot')) ?? knownMetrics[0]).key },
    { key: 'axis', label: 'Over', options: [['', 'system'], ...axisNames.filter((axis) => axis !== 'seed').map((axis) => [axis, axis])],
      chosen: overUsually },
    { key: 'panels', label: 'A panel for each', options: [['', 'none: one chart'], ...axisNames.filter((axis) => axis !== 'seed').map((axis) => [axis, axis])],
      chosen: overUsually === '' ? '' : axisNames.find((axis) => axis !== 'seed' && axis !== overUsually && valuesOf(axis).length <= mostPanels) ?? '' }],
  draw(some, choice, place) {
    const metric = metricOf(choice.metric);
    const means = meansOf(some, metric.key);
    if (means.length === 0) return null;
    const numbers = choice.axis === '' ? null : quantitiesOf(choice.axis);
    return numbers === null ? this.bars(means, metric, choice, place) : this.lines(means, metric, numbers, choice, place);
  },
  tip({ row, mean, low, high, repeats }, label, metric) {
    return [['', label], [metric.name, withUnit(mean, metric)],
            ...(repeats > 1 ? [['seeds', String(repeats)], ['least', withUnit(low, metric)], ['most', withUnit(high, metric)]] : [])];
  },
  bars(means, metric, choice, place) {
    const labels = labelsOf(means.map(({ row }) => row), ['seed']);
    const order = choice.axis === '' ? seriesNames : valuesOf(choice.axis);
    const of = (row) => (choice.axis === '' ? row.series : row.axes.get(choice.axis));
    const sorted = [...means].sort((a, b) => order.indexOf(of(a.row)) - order.indexOf(of(b.row)));
    const data = sorted.map((one) => ({ label: labels.get(one.row), value: one.mean, low: one.low, high: one.high,
      look: lookOfSystem(one.row.series, place.colours), tip: this.tip(one, labels.get(one.row), metric) }));
    return barsDrawing(data, metric, choice, place, []);
  },
  lines(means, metric, numbers, choice, place) {
    const over = choice.axis, by = choice.panels === over ? '' : choice.panels;
    const labels = labelsOf(means.map(({ row }) => row), ['seed', over, by]);
    const looks = looksOf(means, labels, place.colours);
    const log = choice.log === null ? isWide(means.map(({ mean }) => mean)) : choice.log && means.every(({ low }) => low > 0);
    const sentence = extremes(means.map(({ row, mean }) => ({ label: `${labels.get(row)} at ${row.axes.get(over)}${by === '' ? '' : `, ${by} ${row.axes.get(by)}`}`, value: mean })), metric);
    const band = means.some(({ high, low }) => high > low) ? ' Lines are means over the seeds, bands from the least to the most.' : '';
    const xs = means.map(({ row }) => numbers.of.get(row.axes.get(over)));
    const shared = { log, marked: true, colours: place.colours, xTitle: axisTitle(over, numbers), title: titleOf(metric),
      xDomain: [Math.min(...xs), Math.max(...xs)],
      yDomain: [log ? Math.min(...means.map(({ low }) => low)) : Math.min(0, ...means.map(({ low }) => low)), Math.max(...means.map(({ high }) => high))] };
    const values = by === '' ? [''] : valuesOf(by).filter((value) => means.some(({ row }) => row.axes.get(by) === value));
    const { columns, width, height } = panelSizes(values.length, place.width);
    const panels = values.slice(0, mostPanels).map((value) => {
      const title = by === '' ? '' : `${by}: ${value}`;
      const lines = this.linesOf(by === '' ? means : means.filter(({ row }) => row.axes.get(by) === value), metric, numbers, over, labels, looks);
      return { title, spec: lineSpec({ ...shared, lines, width, height,
        description: `Lines: ${titleOf(metric)} over ${over}. ${title === '' ? '' : `${title}. `}${sentence}` }) };
    });
    return {
      panels, columns, log, sentence: sentence + band + firstOf(mostPanels, values.length),
      legend: [...looks].map(([name, look]) => ({ name, ...look })),
      head: ['', ...(by === '' ? [] : [by]), over, titleOf(metric), 'least', 'most', 'seeds'],
      body: means.map(({ row, mean, low, high, repeats }) => [labels.get(row), ...(by === '' ? [] : [row.axes.get(by)]), row.axes.get(over), mean, low, high, repeats]),
    };
  },
  /// The lines of one panel: one for each name, over the numbers of the axis.
  linesOf(means, metric, numbers, over, labels, looks) {
    return [...looks].map(([name, look]) => {
      const points = means.filter(({ row }) => labels.get(row) === name).map((one) => ({
        x: numbers.of.get(one.row.axes.get(over)), y: one.mean, low: one.low, high: one.high,
        tip: [...this.tip(one, name, metric), [over, one.row.axes.get(over)]] })).sort((a, b) => a.x - b.x);
      return { name, look, points };
    }).filter(({ points }) => points.length > 0);
  },
};

const costKeys = ['budget', 'accuracy', 'experts', 'network', 'ssd', 'host', 'page_cache', 'kv', 'ready'];
const varied = (key) => unique(rows.map((row) => row.values[key]).filter((value) => value !== null)).length > 1;

/// Rows that no other row beats or equals in both, in the order of x; `xSign` and `ySign`: 1 where less is better.
function paretoFront(points, xSign, ySign) {
  const sorted = [...points].sort((a, b) => xSign * (a.x - b.x) || ySign * (a.y - b.y));
  const front = [];
  for (const point of sorted) if (front.length === 0 || ySign * (point.y - front[front.length - 1].y) < 0) front.push(point);
  return front;
}

/// "a, b, c, d, e and 3 more"
const firstNames = (names) => (names.length > 6 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', '));

const paretoChart = {
  id: 'pareto', title: 'Pareto frontier', log: true,
  note: 'The frontier joins the results that no other is as good as or better than in both metrics: what lies off it can be had for less. An oracle (it knows the future or tries everything) is a bound, no rival: it is drawn hollow and never on the frontier.',
  applies: () => costKeys.some((key) => metricOf(key) && varied(key)) && knownMetrics.some(({ key, better }) => better !== 0 && !costKeys.includes(key)),
  choices: () => {
    const costs = costKeys.filter((key) => metricOf(key) && varied(key)).map((key) => [key, titleOf(metricOf(key))]);
    const times = knownMetrics.filter(({ key, better }) => better !== 0 && !costKeys.includes(key)).map((metric) => [metric.key, titleOf(metric)]);
    const usual = rows.some((row) => localShare(row.result) !== null) ? 'latency' : 'tpot';
    return [{ key: 'y', label: 'Of', options: times, chosen: times.find(([key]) => key === usual)?.[0] ?? times[0][0] },
            { key: 'x', label: 'Against', options: costs, chosen: costs[0][0] }];
  },
  draw(some, choice, { colours, width }) {
    const [xMetric, yMetric] = [metricOf(choice.x), metricOf(choice.y)];
    const groups = overSeeds(some.filter((row) => row.values[choice.x] !== null && row.values[choice.y] !== null));
    const labels = labelsOf(groups.map(({ row }) => row), ['seed']);
    const points = groups.map(({ row, repeats }) => {
      const [x, y] = [choice.x, choice.y].map((key) => meanOf(repeats.map((one) => one.values[key])));
      return { label: labels.get(row), x, y, oracle: row.oracle, failsMore: repeats.some((one) => one.failsMore), ...lookOfSystem(row.series, colours),
               tip: [['', labels.get(row)], [yMetric.name, withUnit(y, yMetric)], [xMetric.name, withUnit(x, xMetric)]] };
    });
    if (points.length === 0) return null;
    const front = paretoFront(points.filter(({ oracle, failsMore }) => !oracle && !failsMore), xMetric.better === 1 ? -1 : 1, yMetric.better === 1 ? -1 : 1);
    for (const point of front) point.best = true;
    const log = choice.log === null ? isWide(points.map(({ y }) => y)) : choice.log && points.every(({ y }) => y > 0);
    const sentence = front.length === 0 ? 'Only oracles, and results in which more requests fail, are shown.' : `On the Pareto frontier: ${firstNames(unique(front.map(({ label }) => label)))}.`;
    return {
      spec: scatterSpec({ points, front, xTitle: titleOf(xMetric), title: titleOf(yMetric), xLog: isWide(points.map(({ x }) => x)), log, colours, width, height: 320,
                          description: `Points: ${titleOf(yMetric)} against ${titleOf(xMetric)}. ${sentence}` }),
      log, sentence, legend: [...seriesLegend(some, colours), { name: 'Pareto frontier (large marks)', colour: colours.quiet, sign: '- -' }],
      head: ['', titleOf(xMetric), titleOf(yMetric), 'on the Pareto frontier'], body: points.map((p) => [p.label, p.x, p.y, p.best ? 'yes' : p.oracle ? 'oracle' : p.failsMore ? 'more requests fail' : '']),
    };
  },
};

const serverMetrics = [
  { key: 'end_to_end_s', name: 'Request latency', unit: 's', of: (s) => numberAt(s, 'end_to_end_s') },
  { key: 'end_to_end_p90_s', name: 'Request latency p90', unit: 's', of: (s) => numberAt(s, 'end_to_end_p90_s') },
  { key: 'ttft_s', name: 'TTFT', unit: 's', of: (s) => numberAt(s, 'ttft_s') },
  { key: 'local', name: 'Called at home', unit: '%', of: (s) => shareOf(numberAt(s, 'local_activations'),
      numberAt(s, 'local_activations') + numberAt(s, 'remote_activations')) },
  { key: 'network_bytes', name: 'Network', unit: 'GB', of: (s) => scaled(numberAt(s, 'network_bytes'), 1e-9) },
  { key: 'experts', name: 'Experts held', unit: 'experts', of: (s) => numberAt(s, 'experts') },
  { key: 'gpu_busy_s', name: 'GPUs busy', unit: 's', of: (s) => numberAt(s, 'gpu_busy_s') },
];
const serverNames = unique(rows.flatMap((row) => listAt(row.result, 'cluster', 'servers').map((server) => textAt(server, 'name'))));

const serversChart = {
  id: 'servers', title: 'Server by server', log: true,
  applies: () => serverNames.length > 0,
  choices: () => [{ key: 'metric', label: 'Metric', options: serverMetrics.map((metric) => [metric.key, titleOf(metric)]), chosen: 'end_to_end_s' }],
  draw(some, choice, place) {
    const metric = serverMetrics.find(({ key }) => key === choice.metric);
    const labels = labelsOf(some);
    const data = some.flatMap((row) => listAt(row.result, 'cluster', 'servers').map((server) => {
      const value = metric.of(server);
      const label = `${labels.get(row)} · ${textAt(server, 'name')}`;
      return { label, value, low: value, high: value, look: lookOf(serverNames.indexOf(textAt(server, 'name')), place.colours),
               tip: [['', label], [metric.name, withUnit(value, metric)]] };
    })).filter(({ value }) => value !== null);
    if (data.length === 0) return null;
    return barsDrawing(data, metric, choice, place, []);
  },
};

/// Lines over time, a line for each row; points: [seconds, value].
function overTime(some, pointsOf, metric, { colours, width }) {
  const labels = labelsOf(some);
  const all = some.map((row) => ({ row, name: labels.get(row), points: pointsOf(row).filter(([x, y]) => x !== null && y !== null) }))
    .filter(({ points }) => points.length > 0);
  const lines = all.slice(0, mostLines);
  if (lines.length === 0) return null;
  const bySeries = unique(lines.map(({ row }) => row.series)).length === lines.length;
  const drawn = lines.map(({ row, name, points }, i) => ({
    name, look: bySeries ? lookOfSystem(row.series, colours) : lookOf(i, colours),
    points: points.map(([x, y]) => ({ x, y, low: y, high: y, tip: [['', name], ['at', `${shortNumber(x)} s`], [metric.name, withUnit(y, metric)]] })) }));
  const means = drawn.map(({ name, points }) => ({ label: name, value: sumOf(points.map(({ y }) => y)) / points.length }));
  const sentence = (means.length > 1 ? `Means of the samples: ${extremes(means, metric)}` : '') + firstOf(mostLines, all.length);
  return {
    spec: lineSpec({ lines: drawn, xTitle: 'time, s', title: titleOf(metric), log: false, marked: false, colours, width, height: 280,
                     description: `Lines over time: ${titleOf(metric)}. ${sentence}` }),
    sentence, legend: drawn.map(({ name, look }) => ({ name, ...look })),
    head: ['', 'time, s', titleOf(metric)], body: drawn.flatMap(({ name, points }) => points.map(({ x, y }) => [name, x, y])),
  };
}

const localChart = {
  id: 'local', title: 'Experts called at home over time',
  applies: () => serverNames.length > 0,
  choices: () => [{ key: 'server', label: 'Of', options: [['', 'all servers'], ...serverNames.map((name, i) => [String(i), name])], chosen: '' }],
  draw(some, choice, place) {
    const pointsOf = (row) => {
      const servers = listAt(row.result, 'cluster', 'servers')
        .filter((server) => choice.server === '' || textAt(server, 'name') === serverNames[Number(choice.server)]);
      const width = Math.max(0, ...servers.map((server) => numberAt(server, 'series', 'bucket_s') ?? 0));
      const buckets = new Map();  // servers may have buckets of other widths: those of the widest
      for (const server of servers) {
        const of = numberAt(server, 'series', 'bucket_s');
        const remote = listAt(server, 'series', 'remote_activations');
        listAt(server, 'series', 'local_activations').forEach((local, i) => {
          const [at, other] = [Math.floor((i * of) / width), numberAt(remote, i) ?? 0];
          const [l, r] = buckets.get(at) ?? [0, 0];
          buckets.set(at, [l + (typeof local === 'number' ? local : 0), r + other]);
        });
      }
      return [...buckets].map(([at, [l, r]]) => [(at + 0.5) * width, shareOf(l, l + r)]).sort((a, b) => a[0] - b[0]);
    };
    return overTime(some, pointsOf, { name: 'Called at home', unit: '%' }, place);
  },
};

const sampleMetrics = [
  { key: 'tokens_per_s', name: 'Throughput', unit: 'tokens/s', of: (s) => numberAt(s, 'tokens_per_s') },
  { key: 'kv', name: 'KV cache in use', unit: '%', of: (s) => shareOf(numberAt(s, 'kv_blocks'), numberAt(s, 'all_kv_blocks')) },
  { key: 'running', name: 'Requests running', unit: 'requests', of: (s) => numberAt(s, 'running') },
  { key: 'waiting', name: 'Requests waiting', unit: 'requests', of: (s) => numberAt(s, 'waiting') },
  { key: 'swapped', name: 'Requests swapped', unit: 'requests', of: (s) => numberAt(s, 'swapped') },
  { key: 'residency', name: 'Experts in GPU memory', unit: '%', of: (s) => scaled(numberAt(s, 'residency'), 100) },
];

const seriesChart = {
  id: 'series', title: 'Serving over time', wide: true,
  applies: (some) => some.some((row) => listAt(row.result, 'series').length > 0),
  choices: () => [{ key: 'metric', label: 'Metric', options: sampleMetrics.map((metric) => [metric.key, titleOf(metric)]), chosen: 'tokens_per_s' }],
  draw(some, choice, place) {
    const metric = sampleMetrics.find(({ key }) => key === choice.metric);
    return overTime(some, (row) => listAt(row.result, 'series').map((s) => [numberAt(s, 'time_s'), metric.of(s)]), metric, place);
  },
};

const charts = [...loadCharts, ...requestCharts, compareChart, paretoChart, statesChart, timeChart, serversChart, localChart, seriesChart, layersChart];
