
// The curves of `moelab load`: a chart for each file, small multiples over the request rate. The program has checked the files:
// numbers are finite and not below 0; texts are anything.

const loads = Array.isArray(report.loads) ? report.loads : [];
const loadNames = unique(loads.flatMap((load) => load.systems.map(({ system }) => system)));
const requestFiles = Array.isArray(report.requests) ? report.requests : [];
const requestNames = unique(requestFiles.flatMap((file) => file.groups.map(({ system }) => system)));
const allNames = unique([...seriesNames, ...loadNames, ...requestNames]);
/// A system looks the same in every chart of the page.
const lookOfSystem = (name, colours) => lookOf(allNames.indexOf(name), colours);
/// The end of a chart's name and its title, of the index-th of several files.
const loadPlace = (index) => (index === 0 ? '' : `-${index}`);
const loadTitle = (title, load, index) => (loads.length === 1 ? title : `${title}: ${load.scenario}, file ${index + 1}`);

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

/// What is drawn of a file, a panel each: TTFT and TPOT, and what else goals are of, by p90 within a band from p50 to p99, and the
/// statistics that have goals; what was served; the share within the goals.
/// -> [{title, unit, family: panels of one scale, of, limit: the goal, or null; of a band its axis's title, its ends low and high, and
/// columns: what stands in the table for it}]
function loadMetrics({ level }) {
  const clauses = (level?.clauses ?? []).filter((clause) => clause.class === undefined && loadLatencies.has(clause.latency));
  const words = unique(['ttft', 'tpot', ...clauses.map(({ latency }) => latency)]);
  const latencies = words.flatMap((word) => {
    const [name, key] = loadLatencies.get(word);
    const goals = new Map(clauses.filter(({ latency }) => latency === word).map(({ quantile, limit_s }) => [statisticOf(quantile), limit_s]));
    const panel = (title, statistic) => ({ title, unit: 's', family: word, of: (seed) => numberAt(seed, key, statistic), limit: goals.get(statistic) ?? null });
    const band = { ...panel(`${name} p90, p50 to p99`, 'p90'), axis: name, low: (seed) => numberAt(seed, key, 'p50'), high: (seed) => numberAt(seed, key, 'p99'), limit: null };
    band.columns = [[`${name} p50`, band.low], [`${name} p90`, band.of], [`${name} p99`, band.high]];
    return [band, ...[...goals.keys()].map((statistic) => panel(`${name} ${statistic}`, statistic))];
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

/// Why a system was not run, or ''.
function refusalSentence({ system, points }) {
  const refusal = points.flatMap(({ seeds }) => seeds.map((seed) => textAt(seed, 'refusal'))).find((text) => text !== '');
  return refusal ? `${system} was not run: ${refusal}.` : '';
}

/// "vllm serves 5.09 requests/s within ttft p95 < 500 ms (4.87 to 5.21 over the seeds)."
function loadSentence(system, { level }) {
  const refusal = refusalSentence(system);
  if (refusal !== '') return refusal;
  const share = numberAt(level, 'share');
  const goal = level === null ? '' : ` within ${textAt(level, 'text')}${share === null ? '' : ` for ${shortNumber(100 * share)} % of the requests`}`;
  const capacity = capacityOf(system);
  if (capacity === null) return `${system.system} ${level === null ? 'keeps up with' : 'serves'} none of these rates${goal}.`;
  const [low, high] = ['low_per_s', 'high_per_s'].map((key) => numberAt(system, 'highest_rate', key));
  const range = low !== null && high > low ? ` (${shortNumber(low)} to ${shortNumber(high)} over the seeds)` : '';
  return `${system.system} ${level === null ? 'keeps up with' : 'serves'} ${shortNumber(capacity)} requests/s${goal}${range}.`;
}

/// The mean over a point's seeds, between the ends of the metric's band, those too means, or else the least and the most of the seeds.
function loadSpread(point, { of, low, high }) {
  const value = loadValue(point, of);
  if (value === null || low === undefined) return value;
  const ends = [low, high].map((end) => loadValue(point, end)?.mean ?? value.mean);
  return { mean: value.mean, low: Math.min(value.mean, ends[0]), high: Math.max(value.mean, ends[1]) };
}

/// The points of a system in a panel.
function loadPoints({ system, points }, metric) {
  const [low, high] = metric.low === undefined ? ['least', 'most'] : ['p50', 'p99'];
  return points.map((point) => ({ point, value: loadSpread(point, metric) })).filter(({ value }) => value !== null)
    .map(({ point, value }) => ({ x: point.rate_per_s, y: value.mean, low: value.low, high: value.high, hollow: point.verdict !== 'steady',
      tip: [['', system], ['asked for', `${shortNumber(point.rate_per_s)} requests/s`], [metric.title, withUnit(value.mean, metric)],
            ...(value.high > value.low ? [[low, withUnit(value.low, metric)], [high, withUnit(value.high, metric)]] : []), ['verdict', textAt(point, 'verdict')]] }))
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
  id: `load${loadPlace(index)}`, wide: true, log: true,
  title: loadTitle('Under load', load, index),
  note: `${load.model} on ${load.device}; ${load.requests} requests a run, arrivals ${load.arrivals}. Bands of latencies: p50 to p99. Upright lines: what a system can promise. Level lines: goals.`,
  applies: () => true,
  choices: () => [],
  draw(some, choice, { colours, width: room }) {
    const systems = load.systems.slice(0, mostLines);
    const metrics = loadMetrics(load);
    const drawn = metrics.map((metric) => ({ metric, lines: systems.map((system) => ({ name: system.system, look: lookOfSystem(system.system, colours),
      points: loadPoints(system, metric) })).filter(({ points }) => points.length > 0) })).filter(({ lines }) => lines.length > 0);
    const sentence = systems.map((system) => loadSentence(system, load)).join(' ') + firstOf(mostLines, load.systems.length);
    if (drawn.length === 0) return { panels: [], columns: 1, sentence, log: false, legend: [], head: [], body: [] };  // it says why
    const capacities = systems.map((system) => ({ at: capacityOf(system), colour: lookOfSystem(system.system, colours).colour })).filter(({ at }) => at !== null);
    const rates = [...systems.flatMap(({ points }) => points.map((point) => point.rate_per_s)), ...capacities.map(({ at }) => at)];
    const xDomain = [Math.min(...rates), Math.max(...rates)];
    const { columns, width, height } = panelSizes(drawn.length, room);
    const scales = drawn.map(({ metric }) => loadScale(drawn.filter((one) => one.metric.family === metric.family), choice.log));
    const panels = drawn.map(({ metric, lines }, i) => ({ title: metric.title, spec: lineSpec({
      lines, width, height, colours, marked: true, xTitle: 'asked for, requests/s', title: `${metric.axis ?? metric.title}, ${metric.unit}`, log: scales[i].log,
      xDomain, xLog: xDomain[1] > 30 * xDomain[0], yDomain: scales[i].domain,
      rules: [...capacities.map(({ at, colour }) => ({ upright: true, at, colour })),
              ...(metric.limit === null ? [] : [{ upright: false, at: metric.limit, colour: colours.ink }])],
      description: `Lines: ${metric.title}, ${metric.unit}, over the rate asked for. ${metric.limit === null ? '' : `The goal is ${withUnit(metric.limit, metric)}. `}${sentence}` }) }));
    return { panels, columns, sentence, log: scales.some(({ log }) => log), ...this.legendAndNumbers(systems, drawn, colours) };
  },
  legendAndNumbers(systems, drawn, colours) {
    const columns = drawn.flatMap(({ metric }) => (metric.columns ?? [[metric.title, metric.of]]).map(([title, of]) => ({ title: `${title}, ${metric.unit}`, of })));
    return {
      legend: [...systems.map(({ system }) => ({ name: system, ...lookOfSystem(system, colours) })), hollowEntry(colours),
               { name: 'what it can promise; a goal', colour: colours.quiet, sign: '- -' }],
      head: ['', 'asked for, requests/s', 'verdict', ...columns.map(({ title }) => title)],
      body: systems.flatMap(({ system, points }) => points.map((point) => [system, point.rate_per_s, textAt(point, 'verdict'),
        ...columns.map(({ of }) => loadValue(point, of)?.mean ?? '–')])),
    };
  },
});

const hollowEntry = (colours) => ({ name: 'hollow: saturated or unsettled', colour: colours.quiet, sign: '○' });

/// The latencies that some point of a file has.
const knownLatencies = (load) => [...loadLatencies].filter(([, [, key]]) =>
  load.systems.some(({ points }) => points.some((point) => loadValue(point, (seed) => numberAt(seed, key, 'mean')) !== null)));

// Latency against throughput: what serving faster takes. A line runs by the rates that are asked for.
const tradeoffChart = (load, index) => ({
  id: `load-tradeoff${loadPlace(index)}`, title: loadTitle('Latency against throughput', load, index), log: true,
  note: 'To the right more is served; lower is sooner. A line joins a system\'s rates, from the lowest to the highest.',
  applies: () => knownLatencies(load).length > 0,
  choices: () => [
    { key: 'latency', label: 'Latency', options: knownLatencies(load).map(([word, [name]]) => [word, `${name}, s`]),
      chosen: knownLatencies(load).some(([word]) => word === 'tpot') ? 'tpot' : 'ttft' },
    { key: 'statistic', label: 'By', options: ['mean', 'p50', 'p90', 'p95', 'p99'].map((one) => [one, one]), chosen: 'p99' }],
  draw(some, choice, { colours, width }) {
    const [name, key] = loadLatencies.get(choice.latency);
    const latency = { title: `${name} ${choice.statistic}`, unit: 's', of: (seed) => numberAt(seed, key, choice.statistic) };
    const lines = load.systems.slice(0, mostLines).map((system) => ({ name: system.system, look: lookOfSystem(system.system, colours), points: this.pointsOf(system, latency) }))
      .filter(({ points }) => points.length > 0);
    if (lines.length === 0) return null;
    const points = lines.flatMap((line) => line.points);
    const log = choice.log === null ? isWide(points.map(({ y }) => y)) : choice.log && points.every(({ y }) => y > 0);
    const title = `${latency.title}, s`, most = Math.max(...points.map(({ x }) => x));
    const sentence = [...lines.map((line) => this.sentenceOf(line, latency)), ...load.systems.map(refusalSentence)].filter((said) => said !== '').join(' ')
      + firstOf(mostLines, load.systems.length);
    return {
      spec: lineSpec({ lines, width, height: 320, colours, marked: true, placed: false, xTitle: 'throughput, tokens/s', title, log, xDomain: [0, most > 0 ? most : 1],
                       description: `Lines: ${title}, over throughput, tokens/s. ${sentence}` }),
      log, sentence, legend: [...lines.map(({ name: of, look }) => ({ name: of, ...look })), hollowEntry(colours)],
      head: ['', 'asked for, requests/s', 'verdict', 'throughput, tokens/s', title], body: lines.flatMap((line) => line.points.map((p) => [line.name, p.rate, p.verdict, p.x, p.y])),
    };
  },
  pointsOf({ system, points }, latency) {
    return points.map((point) => ({ point, x: loadValue(point, (seed) => numberAt(seed, 'throughput_tokens_per_s')), y: loadValue(point, latency.of) }))
      .filter(({ x, y }) => x !== null && y !== null).sort((a, b) => a.point.rate_per_s - b.point.rate_per_s)
      .map(({ point, x: { mean: x }, y: { mean: y } }) => ({ x, y, low: y, high: y, rate: point.rate_per_s, verdict: textAt(point, 'verdict'), hollow: point.verdict !== 'steady',
        tip: [['', system], ['asked for', `${shortNumber(point.rate_per_s)} requests/s`], ['throughput', `${shortNumber(x)} tokens/s`],
              [latency.title, withUnit(y, latency)], ['verdict', textAt(point, 'verdict')]] }));
  },
  /// Of rates that it keeps up with, the one that serves most.
  sentenceOf({ name, points }, latency) {
    const steady = points.filter(({ hollow }) => !hollow);
    if (steady.length === 0) return `${name} keeps up with none of these rates.`;
    const best = steady.reduce((a, b) => (b.x > a.x ? b : a));
    return `${name}: at most ${shortNumber(best.x)} tokens/s while it keeps up, at a ${latency.title} of ${withUnit(best.y, latency)}.`;
  },
});

// Goodput: how many requests a second are answered within the goals, a bar for each system and rate.
const goodputChart = (load, index) => ({
  id: `load-goodput${loadPlace(index)}`, title: loadTitle('Goodput', load, index),
  note: `Requests answered a second within ${textAt(load.level, 'text')}. Pale: saturated or unsettled, which cannot be kept up or is not known to be.`,
  applies: () => load.systems.some(({ points }) => points.some((point) => loadValue(point, (seed) => numberAt(seed, 'goodput_requests_per_s')) !== null)),
  choices: () => {
    const bars = sumOf(load.systems.map(({ points }) => points.length));
    const rates = unique(load.systems.flatMap(({ points }) => points.map((point) => point.rate_per_s))).sort((a, b) => a - b);
    return [{ key: 'rate', label: 'At', options: [['', 'each rate'], ...rates.map((rate) => [String(rate), `${shortNumber(rate, 4)} requests/s`])],
              chosen: bars > mostBars ? String(rates[Math.floor((rates.length - 1) / 2)]) : '' }];
  },
  draw(some, choice, place) {
    const metric = { name: 'Goodput', unit: 'requests/s' };
    const data = load.systems.flatMap(({ system, points }) => points.filter((point) => choice.rate === '' || point.rate_per_s === Number(choice.rate))
      .map((point) => ({ point, value: loadValue(point, (seed) => numberAt(seed, 'goodput_requests_per_s')) })).filter(({ value }) => value !== null)
      .map((one) => ({ ...one, steady: one.point.verdict === 'steady' }))
      .map(({ point, steady, value: { mean, low, high } }) => ({ system, rate: point.rate_per_s, label: `${system} · ${shortNumber(point.rate_per_s, 4)} requests/s`, value: mean, low, high,
        look: lookOfSystem(system, place.colours), steady, opacity: steady ? barOpacity : paleOpacity,
        tip: [['', system], ['asked for', `${shortNumber(point.rate_per_s)} requests/s`], ['goodput', withUnit(mean, metric)], ['verdict', textAt(point, 'verdict')]] })));
    if (data.length === 0) return null;
    const ran = load.systems.filter(({ system }) => data.some((one) => one.system === system));
    const said = load.systems.map((system) => (ran.includes(system) ? this.sentenceOf(system.system, data.filter((one) => one.system === system.system)) : refusalSentence(system)));
    const sentence = said.filter((text) => text !== '').join(' ') + firstOf(mostBars, data.length);
    const legend = ran.map(({ system }) => ({ name: system, ...lookOfSystem(system, place.colours), sign: '■' }));
    return { ...barsDrawing(data, metric, { log: false }, place, legend), sentence };
  },
  /// Of the rates that it keeps up with, as only these last.
  sentenceOf(system, bars) {
    const steady = bars.filter((bar) => bar.steady);
    if (steady.length === 0) return `${system} ${bars.length === 1 ? 'does not keep up with this rate' : 'keeps up with none of these rates'}.`;
    const best = steady.reduce((a, b) => (b.value > a.value ? b : a));
    return `${system}: ${shortNumber(best.value)} requests/s within the goals, of ${shortNumber(best.rate, 4)} asked for.`;
  },
});

const loadCharts = loads.flatMap((load, index) => [loadChart(load, index), tradeoffChart(load, index),
  ...(load.level === null || load.level === undefined ? [] : [goodputChart(load, index)])]);
