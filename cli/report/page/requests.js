
// Requests one by one, of `moelab run --requests` and `moelab load --records`: a chart for each file, a mark for each request, which
// shows what percentiles do not: which of them are slow. The program has checked the files: numbers are finite and not below 0; texts
// are anything. Of many requests it has taken some, evenly.

// What a request is asked for, and what it met; null of what never came.
const [requestNumber, arrivalAt, promptAt, outputAt, startedAt, firstAt, endAt, classAt, seedAt, serverAt] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
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

/// Linear between two of these values, sorted, as all percentiles of the program are.
function quantileOf(sorted, share) {
  const rank = share * (sorted.length - 1), below = Math.floor(rank);
  return sorted[below] + (rank - below) * (sorted[Math.min(below + 1, sorted.length - 1)] - sorted[below]);
}

const requestChart = (file, index) => ({
  id: `requests${index === 0 ? '' : `-${index}`}`, wide: true, log: true,
  title: requestFiles.length === 1 ? 'Request by request' : `Request by request: ${file.requests_of}`,
  note: `A mark for each request. ${drawnRequests(file) < file.all ? `Of ${file.all}, ${drawnRequests(file)} that lie evenly among them are drawn. ` : ''}${file.left_out > 0 ? `${file.left_out} more, of a warm-up or a cool-down, are left out, as of the statistics. ` : ''}Of a request that was not answered only its queueing is known.`,
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
    const drawn = unique(groups.map(({ system }) => system)).slice(0, mostLines);
    const points = groups.filter(({ system }) => drawn.includes(system)).flatMap((group) => this.pointsOf(group, latency, cause, colours));
    if (points.length === 0) return null;
    const log = choice.log === null ? isWide(points.map(({ y }) => y)) : choice.log && points.every(({ y }) => y > 0);
    const systems = unique(points.map(({ system }) => system));
    const sentence = this.placeOf(groups) + systems.map((system) => this.sentenceOf(system, points.filter((point) => point.system === system).map(({ y }) => y), latency)).join(' ') + firstOf(mostLines, unique(groups.map(({ system }) => system)).length);
    return {
      spec: scatterSpec({ points, front: [], xTitle: cause.title, title: titleOf(latency), xLog: cause.key !== 'arrival' && isWide(points.map(({ x }) => x)), log, colours, width, height: 360, size: points.length > 300 ? 30 : 80,
                          description: `Points: ${titleOf(latency)}, over ${cause.title}. ${sentence}` }),
      log, sentence, legend: systems.map((name) => ({ name, ...lookOfSystem(name, colours) })),
      head: ['', 'request', 'seed', 'asked for, requests/s', 'class', 'server', cause.title, titleOf(latency)],
      body: points.map((p) => [p.system, p.number, p.seed ?? '–', p.rate ?? '–', p.ofClass ?? '–', p.server ?? '–', p.x, p.y]),
    };
  },
  pointsOf({ system, rate_per_s: rate, requests }, latency, cause, colours) {
    return requests.map((q) => ({ q, x: cause.of(q), y: latency.of(q) })).filter(({ y }) => y !== null)
      .map(({ q, x, y }) => ({ x, y, system, rate, number: q[requestNumber], ofClass: q[classAt], seed: q[seedAt], server: q[serverAt], ...lookOfSystem(system, colours),
        tip: [['', `${system} · request ${q[requestNumber]}`], ...[['class', classAt], ['server', serverAt], ['seed', seedAt]].filter(([, at]) => q[at] !== null).map(([name, at]) => [name, String(q[at])]),
              ...(rate === null ? [] : [['asked for', `${shortNumber(rate)} requests/s`]]), ['arrival', `${shortNumber(q[arrivalAt])} s`],
              ['prompt', `${q[promptAt]} tokens`], ['output', `${q[outputAt]} tokens`], [latency.name, withUnit(y, latency)]] }));
  },
  /// Which requests a sentence is of.
  placeOf(groups) {
    const rates = unique(groups.map(({ rate_per_s: rate }) => rate)), seeds = unique(groups.flatMap(({ requests }) => requests.map((q) => q[seedAt])));
    const at = rates.length > 1 ? 'All rates together' : rates[0] === null ? '' : `At ${shortNumber(rates[0], 4)} requests/s`;
    const parts = [at, seeds.length > 1 ? 'all seeds together' : '', drawnRequests(file) < file.all ? 'of those drawn' : ''].filter((part) => part !== '');
    return parts.length === 0 ? '' : `${parts.join(', ')}: `;
  },
  /// "vllm: TTFT p50 0.2 s, p99 1.4 s, at most 3 s."
  sentenceOf(system, values, latency) {
    const sorted = [...values].sort((a, b) => a - b);
    return `${system}: ${latency.name} p50 ${withUnit(quantileOf(sorted, 0.5), latency)}, p99 ${withUnit(quantileOf(sorted, 0.99), latency)}, at most ${withUnit(sorted[sorted.length - 1], latency)}.`;
  },
});
const requestCharts = requestFiles.map(requestChart);
