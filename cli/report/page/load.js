
// The curves of `moelab load`: a chart for each file, small multiples over the request rate. The program has checked the files:
// numbers are finite and not below 0; texts are anything.

const loads = Array.isArray(report.loads) ? report.loads : [];
const loadNames = unique(loads.flatMap((load) => load.systems.map(({ system }) => system)));
/// A system looks the same in every chart of the page.
const lookOfLoad = (name, colours) => (seriesNames.includes(name) ? lookOfSeries(name, colours)
  : lookOf(seriesNames.length + loadNames.filter((one) => !seriesNames.includes(one)).indexOf(name), colours));

// The words of service levels, and where a result has what they are of.
const loadLatencies = new Map(Object.entries({
  ttft: ['TTFT', 'ttft_s'], tpot: ['TPOT', 'tpot_s'], itl: ['ITL', 'itl_s'], e2e: ['Request latency', 'end_to_end_s'],
  normalised: ['Latency an output token', 'normalised_latency_s'], queueing: ['Queueing', 'queueing_s'] }));
const statisticOf = (quantile) => (quantile === null ? 'mean' : `p${shortNumber(100 * quantile, 4)}`);

/// The mean over a point's seeds and their extremes; null where one of them lacks it.
function loadValue(point, of) {
  const values = point.seeds.map(of);
  if (values.some((value) => value === null)) return null;
  return { mean: meanOf(values), low: Math.min(...values), high: Math.max(...values) };
}

/// What is drawn of a file, a panel each: TTFT and TPOT by p50 and p90 or, where goals say so, their statistics; what else goals are
/// of; what was served; the share within the goals. -> [{title, unit, family: panels of one scale, of, limit: the goal, or null}]
function loadMetrics({ level }) {
  const clauses = (level?.clauses ?? []).filter((clause) => clause.class === undefined && loadLatencies.has(clause.latency));
  const words = unique(['ttft', 'tpot', ...clauses.map(({ latency }) => latency)]);
  const latencies = words.flatMap((word) => {
    const [name, key] = loadLatencies.get(word);
    const goals = new Map(clauses.filter(({ latency }) => latency === word).map(({ quantile, limit_s }) => [statisticOf(quantile), limit_s]));
    const statistics = goals.size === 0 ? ['p50', 'p90'] : unique(['p50', ...goals.keys()]);
    return statistics.map((statistic) => ({ title: `${name} ${statistic}`, unit: 's', family: word, of: (seed) => numberAt(seed, key, statistic),
                                            limit: goals.get(statistic) ?? null }));
  });
  const served = { title: 'Served', unit: 'requests/s', family: 'served', of: (seed) => numberAt(seed, 'throughput_requests_per_s'), limit: null };
  const tokens = { title: 'Throughput', unit: 'tokens/s', family: 'tokens', of: (seed) => numberAt(seed, 'throughput_tokens_per_s'), limit: null };
  const within = { title: 'Within the goals', unit: '% of requests', family: 'within', of: (seed) => scaled(numberAt(seed, 'met_share'), 100),
                   limit: scaled(numberAt(level, 'share'), 100) };
  return [...latencies, served, tokens, within];
}

/// What a system can promise: the highest rate that was found, or else the highest of those that were run; null where there is none.
function capacityOf(system) {
  const rate = numberAt(system, 'highest_rate', 'median_per_s') ?? numberAt(system, 'best_rate_per_s');
  return rate > 0 ? rate : null;
}

/// "vllm serves 5.09 requests/s within ttft p95 < 500 ms (4.87 to 5.21 over the seeds)."
function loadSentence(system, { level }) {
  const refusal = system.points.flatMap(({ seeds }) => seeds.map((seed) => textAt(seed, 'refusal'))).find((text) => text !== '');
  if (refusal) return `${system.system} was not run: ${refusal}.`;
  const share = numberAt(level, 'share');
  const goal = level === null ? '' : ` within ${textAt(level, 'text')}${share === null ? '' : ` for ${shortNumber(100 * share)} % of the requests`}`;
  const capacity = capacityOf(system);
  if (capacity === null) return `${system.system} ${level === null ? 'keeps up with' : 'serves'} none of these rates${goal}.`;
  const [low, high] = ['low_per_s', 'high_per_s'].map((key) => numberAt(system, 'highest_rate', key));
  const range = low !== null && high > low ? ` (${shortNumber(low)} to ${shortNumber(high)} over the seeds)` : '';
  return `${system.system} ${level === null ? 'keeps up with' : 'serves'} ${shortNumber(capacity)} requests/s${goal}${range}.`;
}

/// The points of a system in a panel.
function loadPoints({ system, points }, metric) {
  return points.map((point) => ({ point, value: loadValue(point, metric.of) })).filter(({ value }) => value !== null)
    .map(({ point, value: { mean, low, high } }) => ({ x: point.rate_per_s, y: mean, low, high, hollow: point.verdict !== 'steady',
      tip: [['', system], ['asked for', `${shortNumber(point.rate_per_s)} requests/s`], [metric.title, withUnit(mean, metric)],
            ...(high > low ? [['least', withUnit(low, metric)], ['most', withUnit(high, metric)]] : []), ['verdict', textAt(point, 'verdict')]] }))
    .sort((a, b) => a.x - b.x);
}

/// A panel's scale, that of all of its family: {log, domain}, room for the goals included.
function loadScale(family, asked) {
  const points = family.flatMap(({ lines }) => lines.flatMap((line) => line.points));
  const limits = family.map(({ metric }) => metric.limit).filter((limit) => limit !== null);
  const lows = [...points.map(({ low }) => low), ...limits], highs = [...points.map(({ high }) => high), ...limits];
  const isLatency = family[0].metric.unit === 's';
  const log = isLatency && Math.min(...lows) > 0 && (asked ?? isWide([...lows, ...highs]));
  const most = family[0].metric.family === 'within' ? 100 : Math.max(...highs);
  return { log, domain: [log ? Math.min(...lows) : 0, most > 0 ? most : 1] };
}

const loadChart = (load, index) => ({
  id: `load${index === 0 ? '' : `-${index}`}`, wide: true, log: true,
  title: loads.length === 1 ? 'Under load' : `Under load: ${load.scenario}, file ${index + 1}`,
  note: `${load.model} on ${load.device}; ${load.requests} requests a run, arrivals ${load.arrivals}. Upright lines: what a system can promise. Level lines: goals.`,
  applies: () => true,
  choices: () => [],
  draw(some, choice, { colours, width: room }) {
    const systems = load.systems.slice(0, mostLines);
    const metrics = loadMetrics(load);
    const drawn = metrics.map((metric) => ({ metric, lines: systems.map((system) => ({ name: system.system, look: lookOfLoad(system.system, colours),
      points: loadPoints(system, metric) })).filter(({ points }) => points.length > 0) })).filter(({ lines }) => lines.length > 0);
    const sentence = systems.map((system) => loadSentence(system, load)).join(' ') + firstOf(mostLines, load.systems.length);
    if (drawn.length === 0) return null;
    const capacities = systems.map((system) => ({ at: capacityOf(system), colour: lookOfLoad(system.system, colours).colour })).filter(({ at }) => at !== null);
    const rates = [...systems.flatMap(({ points }) => points.map((point) => point.rate_per_s)), ...capacities.map(({ at }) => at)];
    const xDomain = [Math.min(...rates), Math.max(...rates)];
    const { columns, width, height } = panelSizes(drawn.length, room);
    const scales = drawn.map(({ metric }) => loadScale(drawn.filter((one) => one.metric.family === metric.family), choice.log));
    const panels = drawn.map(({ metric, lines }, i) => ({ title: metric.title, spec: lineSpec({
      lines, width, height, colours, marked: true, xTitle: 'asked for, requests/s', title: `${metric.title}, ${metric.unit}`, log: scales[i].log,
      xDomain, xLog: xDomain[1] > 30 * xDomain[0], yDomain: scales[i].domain,
      rules: [...capacities.map(({ at, colour }) => ({ upright: true, at, colour })),
              ...(metric.limit === null ? [] : [{ upright: false, at: metric.limit, colour: colours.ink }])],
      description: `Lines: ${metric.title}, ${metric.unit}, over the rate asked for. ${metric.limit === null ? '' : `The goal is ${withUnit(metric.limit, metric)}. `}${sentence}` }) }));
    return { panels, columns, sentence, log: scales.some(({ log }) => log), ...this.legendAndNumbers(systems, drawn, colours) };
  },
  legendAndNumbers(systems, drawn, colours) {
    const metrics = drawn.map(({ metric }) => metric);
    return {
      legend: [...systems.map(({ system }) => ({ name: system, ...lookOfLoad(system, colours) })), { name: 'hollow: saturated or unsettled', colour: colours.quiet, sign: '○' },
               { name: 'what it can promise; a goal', colour: colours.quiet, sign: '- -' }],
      head: ['', 'asked for, requests/s', 'verdict', ...metrics.map((metric) => `${metric.title}, ${metric.unit}`)],
      body: systems.flatMap(({ system, points }) => points.map((point) => [system, point.rate_per_s, textAt(point, 'verdict'),
        ...metrics.map((metric) => loadValue(point, metric.of)?.mean ?? '–')])),
    };
  },
});
const loadCharts = loads.map(loadChart);
