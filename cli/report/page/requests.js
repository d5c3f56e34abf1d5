
// Requests one by one, of `moelab run --requests` and `moelab load --records`: a chart for each file, a mark for each request, which
// shows what percentiles do not: which of them are slow. The program has checked the files: numbers are finite and not below 0; texts
// are anything. Of many requests it has taken some, evenly.

// What a request is asked for, and what it met; null of what never came.
const [requestNumber, arrivalAt, promptAt, outputAt, startedAt, firstAt, endAt, classAt] = [0, 1, 2, 3, 4, 5, 6, 7];
const betweenOf = (q, from, to) => (q[from] === null || q[to] === null ? null : q[to] - q[from]);
const requestCauses = [
  { key: 'prompt', title: 'prompt, tokens', of: (q) => q[promptAt] },
  { key: 'output', title: 'output, tokens', of: (q) => q[outputAt] },
  { key: 'arrival', title: 'arrival, s', of: (q) => q[arrivalAt] }];
const requestLatencies = [
  { key: 'ttft', name: 'TTFT', unit: 's', of: (q) => betweenOf(q, arrivalAt, firstAt) },
  { key: 'tpot', name: 'TPOT', unit: 's', of: (q) => (q[outputAt] > 1 ? scaled(betweenOf(q, firstAt, endAt), 1 / (q[outputAt] - 1)) : null) },
  { key: 'e2e', name: 'Request latency', unit: 's', of: (q) => betweenOf(q, arrivalAt, endAt) },
  { key: 'queueing', name: 'Queueing', unit: 's', of: (q) => betweenOf(q, arrivalAt, startedAt) }];

const drawnRequests = (file) => sumOf(file.groups.map(({ requests }) => requests.length));
const requestFact = (file) => (drawnRequests(file) < file.all ? `${drawnRequests(file)} of ${file.all} are drawn` : `${file.all}`);

/// The value that a share of these, sorted, do not exceed.
const quantileOf = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))];

const requestChart = (file, index) => ({
  id: `requests${index === 0 ? '' : `-${index}`}`, wide: true, log: true,
  title: requestFiles.length === 1 ? 'Request by request' : `Request by request: ${file.requests_of}`,
  note: `A mark for each request. ${drawnRequests(file) < file.all ? `Of ${file.all}, ${drawnRequests(file)} that lie evenly among them are drawn. ` : ''}Requests that were not answered have no latency.`,
  applies: () => true,
  choices: () => {
    const known = (of) => file.groups.some(({ requests }) => requests.some((q) => of(q) !== null));
    const rates = unique(file.groups.map(({ rate_per_s: rate }) => rate).filter((rate) => rate !== null)).sort((a, b) => a - b);
    const varies = ({ of }) => unique(file.groups.flatMap(({ requests }) => requests.map(of))).length > 1;
    const latencies = requestLatencies.filter(({ of }) => known(of));
    return [{ key: 'latency', label: 'Of', options: latencies.map((metric) => [metric.key, titleOf(metric)]), chosen: latencies[0]?.key ?? 'ttft' },
            { key: 'cause', label: 'Over', options: requestCauses.map(({ key, title }) => [key, title]), chosen: (requestCauses.find(varies) ?? requestCauses[0]).key },
            { key: 'rate', label: 'At', options: [['', 'all rates'], ...rates.map((rate) => [String(rate), `${shortNumber(rate, 4)} requests/s`])],
              chosen: rates.length === 0 ? '' : String(rates[Math.floor((rates.length - 1) / 2)]) }];
  },
  draw(some, choice, { colours, width }) {
    const latency = requestLatencies.find(({ key }) => key === choice.latency), cause = requestCauses.find(({ key }) => key === choice.cause);
    const groups = file.groups.filter(({ rate_per_s: rate }) => choice.rate === '' || String(rate) === choice.rate);
    const points = groups.flatMap((group) => this.pointsOf(group, latency, cause, colours));
    if (points.length === 0) return null;
    const log = choice.log === null ? isWide(points.map(({ y }) => y)) : choice.log && points.every(({ y }) => y > 0);
    const systems = unique(points.map(({ system }) => system));
    const sentence = (drawnRequests(file) < file.all ? 'Of those drawn: ' : '') + systems.map((system) => this.sentenceOf(system, points.filter((point) => point.system === system).map(({ y }) => y), latency)).join(' ');
    return {
      spec: scatterSpec({ points, front: [], xTitle: cause.title, title: titleOf(latency), xLog: isWide(points.map(({ x }) => x)), log, colours, width, height: 360, size: points.length > 300 ? 30 : 80,
                          description: `Points: ${titleOf(latency)}, over ${cause.title}. ${sentence}` }),
      log, sentence, legend: systems.map((name) => ({ name, ...lookOfSystem(name, colours) })),
      head: ['', 'request', 'asked for, requests/s', 'class', cause.title, titleOf(latency)],
      body: points.map((p) => [p.system, p.number, p.rate ?? '–', p.ofClass ?? '–', p.x, p.y]),
    };
  },
  pointsOf({ system, rate_per_s: rate, requests }, latency, cause, colours) {
    return requests.map((q) => ({ q, x: cause.of(q), y: latency.of(q) })).filter(({ y }) => y !== null)
      .map(({ q, x, y }) => ({ x, y, system, rate, number: q[requestNumber], ofClass: q[classAt], ...lookOfSystem(system, colours),
        tip: [['', `${system} · request ${q[requestNumber]}`], ...(q[classAt] === null ? [] : [['class', q[classAt]]]),
              ...(rate === null ? [] : [['asked for', `${shortNumber(rate)} requests/s`]]), ['arrival', `${shortNumber(q[arrivalAt])} s`],
              ['prompt', `${q[promptAt]} tokens`], ['output', `${q[outputAt]} tokens`], [latency.name, withUnit(y, latency)]] }));
  },
  /// "vllm: TTFT p50 0.2 s, p99 1.4 s, at most 3 s."
  sentenceOf(system, values, latency) {
    const sorted = [...values].sort((a, b) => a - b);
    return `${system}: ${latency.name} p50 ${withUnit(quantileOf(sorted, 0.5), latency)}, p99 ${withUnit(quantileOf(sorted, 0.99), latency)}, at most ${withUnit(sorted[sorted.length - 1], latency)}.`;
  },
});
const requestCharts = requestFiles.map(requestChart);
