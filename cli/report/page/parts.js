
// The charts of what each result is made of: its time by cause, its experts by state, its layers. A few results have a bar or row
// each; many are drawn over a key of numbers, a panel for each system, as means over the seeds and at one value of other keys.

const fewResults = 16;
const variedAxes = axisNames.filter((axis) => axis !== 'seed' && valuesOf(axis).length > 1);
const numericAxes = variedAxes.filter((axis) => quantitiesOf(axis) !== null);
const isAt = (row, axis, value) => row.axes.get(axis) === value;

/// What is chosen at first: over which key ("": each result by itself), and the middle value of as many others as needed for
/// what is drawn of these results to be few.
function usualPlace(some) {
  const over = overSeeds(some).length > fewResults ? numericAxes[0] ?? '' : '';
  const most = over === '' ? fewResults : mostPanels * valuesOf(over).length;
  const at = new Map();
  let left = some;
  for (const axis of variedAxes.filter((one) => one !== over)) {
    if (overSeeds(left).length <= most) break;
    const values = valuesOf(axis).filter((value) => left.some((row) => isAt(row, axis, value)));
    at.set(axis, values[Math.floor(values.length / 2)]);
    left = left.filter((row) => isAt(row, axis, at.get(axis)));
  }
  return { over, at };
}

/// The choices of a chart of these results: the key that they are drawn over, and a value of each other.
function placeChoices(some) {
  const { over, at } = usualPlace(some);
  return [
    { key: 'over', label: 'Over', options: [['', 'each result'], ...numericAxes.map((axis) => [axis, axis])], chosen: over },
    ...variedAxes.map((axis, i) => ({ key: `at-${i}`, label: `At ${axis}`, options: [['', 'all'], ...valuesOf(axis).map((value, v) => [String(v), value])],
      chosen: at.has(axis) ? String(valuesOf(axis).indexOf(at.get(axis))) : '', isUsed: (choice) => choice.over !== axis }))];
}

/// The results at the chosen values, repeats together, and where they are drawn: over an axis with its numbers, or, where fewer
/// than two of its values are shown, each by itself. A value that no shown result has does not choose.
function placed(some, choice) {
  let left = some;
  variedAxes.forEach((axis, i) => {
    const value = valuesOf(axis)[Number(choice[`at-${i}`])];
    if (choice[`at-${i}`] !== '' && axis !== choice.over && left.some((row) => isAt(row, axis, value))) left = left.filter((row) => isAt(row, axis, value));
  });
  const fixed = variedAxes.filter((axis) => axis !== choice.over && unique(left.map((row) => row.axes.get(axis))).length === 1);
  const where = fixed.length === 0 || left.length === 0 ? '' : ` At ${fixed.map((axis) => `${axis} ${left[0].axes.get(axis)}`).join(', ')}.`;
  const spread = choice.over !== '' && unique(left.map((row) => row.axes.get(choice.over))).length > 1;
  return { groups: overSeeds(left), over: spread ? choice.over : '', numbers: spread ? quantitiesOf(choice.over) : null, where };
}

/// Groups by what they are called without the axis that they are drawn over, one system's beside each other, each in the order of
/// the axis's numbers:
/// [{name, groups: [{row, repeats, x, at}]}]
function panelsOf(groups, over, numbers) {
  const labels = labelsOf(groups.map(({ row }) => row), ['seed', over]);
  const bySystem = [...labels.keys()].sort((a, b) => seriesNames.indexOf(a.series) - seriesNames.indexOf(b.series));
  return unique(bySystem.map((row) => labels.get(row))).map((name) => ({ name, groups: groups.filter(({ row }) => labels.get(row) === name)
    .map((group) => ({ ...group, at: group.row.axes.get(over), x: numbers.of.get(group.row.axes.get(over)) })).sort((a, b) => a.x - b.x) }));
}

/// Parts with where they begin and end when they stand on each other, in percent where asked for shares.
function stacked(parts, asShare) {
  const all = sumOf(parts.map(({ value }) => value));
  let to = 0;
  return parts.map((part) => {
    const from = to;
    to += asShare ? (100 * part.value) / all : part.value;
    return { ...part, from, to, share: (100 * part.value) / all };
  });
}
const tipOfPart = (label, { name, from, to, share }) => [['', label], [name, shortNumber(to - from)], ['share', `${shortNumber(share)} %`]];

/// Parts {name, value, colour, opacity} of each result, as stacked bars or, over a key, as areas. Asked for shares, in percent.
function partsDrawing(some, choice, partsOf, title, asShare, place) {
  const { groups, over, numbers, where } = placed(some.filter((row) => partsOf(row).length > 0), choice);
  if (groups.length === 0) return null;
  const means = groups.map((group) => ({ ...group, parts: stacked(meanParts(group.repeats.map(partsOf)), asShare) }));
  const legend = new Map(means.flatMap(({ parts }) => parts.map(({ name, colour, opacity }) => [name, { name, colour, opacity, sign: '■' }])));
  const drawing = over === '' ? partBars(means, title, asShare, place) : partAreas(means, title, asShare, { over, numbers, legend }, place);
  return { ...drawing, sentence: (drawing.sentence + where).trim(), legend: [...legend.values()] };
}

function partBars(means, title, asShare, { colours, width }) {
  const shown = means.slice(0, mostBars);
  const names = labelsOf(shown.map(({ row }) => row), ['seed']);
  const labels = distinctLabels(shown.map(({ row }) => names.get(row)));
  const parts = shown.flatMap((one, i) => one.parts.map((part) => ({ ...part, label: labels[i], tip: tipOfPart(labels[i], part) })));
  return {
    spec: stackSpec({ labels, parts, title, most: asShare ? 100 : Math.max(...parts.map(({ to }) => to)), colours, width,
                      description: `Stacked bars of ${labels.length} results: ${title}.` }),
    sentence: firstOf(mostBars, means.length), head: ['', 'part', title], body: parts.map(({ label, name, from, to }) => [label, name, to - from]),
  };
}

/// "zipmoe: mostly SSD (62 %) at 12 GB, dense (70 %) at 40 GB."
function largestParts({ name, groups }) {
  const ends = groups.length === 1 ? groups : [groups[0], groups[groups.length - 1]];
  return `${name}: mostly ${ends.map(({ at, parts }) => {
    const largest = parts.reduce((a, b) => (b.share > a.share ? b : a));
    return `${largest.name} (${shortNumber(largest.share)} %) at ${at}`;
  }).join(', ')}.`;
}

/// The areas of a panel: each part at each place, 0 where a result has not got it, with the stretch in which a pointer means it.
function areasOf({ name, groups }, legend, asShare, [least, most]) {
  return groups.flatMap(({ x, at, parts }, i) => {
    const left = i === 0 ? least : (groups[i - 1].x + x) / 2, right = i === groups.length - 1 ? most : (x + groups[i + 1].x) / 2;
    const all = [...legend.values()].map((entry) => ({ ...entry, value: parts.find((part) => part.name === entry.name)?.value ?? 0 }));
    return stacked(all, asShare).map((part) => ({ ...part, x, at, left, right, alone: groups.length === 1, tip: tipOfPart(`${name} at ${at}`, part) }));
  });
}

function partAreas(means, title, asShare, { over, numbers, legend }, place) {
  const all = panelsOf(means, over, numbers), shown = all.slice(0, mostPanels);
  const xs = means.map(({ row }) => numbers.of.get(row.axes.get(over)));
  const xDomain = [Math.min(...xs), Math.max(...xs)];
  const { columns, width, height } = panelSizes(shown.length, place.width);
  const drawn = shown.map((panel) => ({ panel, areas: areasOf(panel, legend, asShare, xDomain) }));
  const most = asShare ? 100 : Math.max(...drawn.flatMap(({ areas }) => areas.map(({ to }) => to)));
  return {
    panels: drawn.map(({ panel, areas }) => ({ title: panel.name, spec: areaSpec({ areas, xTitle: axisTitle(over, numbers), title, xDomain, most,
      colours: place.colours, width, height, description: `Stacked areas: ${title} over ${over}. ${largestParts(panel)}` }) })),
    columns, sentence: shown.map(largestParts).join(' ') + firstOf(mostPanels, all.length),
    head: ['', over, 'part', title],
    body: drawn.flatMap(({ panel, areas }) => areas.filter(({ value }) => value > 0).map(({ at, name, from, to }) => [panel.name, at, name, to - from])),
  };
}

const timeChart = {
  id: 'time', title: 'Where the time goes', wide: true,
  note: 'Every instant belongs to one cause on the critical path.',
  applies: (some) => some.some((row) => partsAt(row.result, 'stall_s').length > 0),
  choices: () => [
    { key: 'phase', label: 'Time of', options: [['decode_stall_s', 'decoding'], ['stall_s', 'the whole run']], chosen: 'decode_stall_s' },
    { key: 'as', label: 'As', options: [['share', 'share, %'], ['token', 'ms a token'], ['seconds', 'seconds']], chosen: 'share' },
    ...placeChoices(rows.filter((row) => partsAt(row.result, 'decode_stall_s').length > 0))],
  draw(some, choice, place) {
    const titles = { share: 'share of the time, %', token: 'ms a generated token', seconds: 'seconds' };
    const factor = (row) => (choice.as === 'token' ? 1e3 / Math.max(1, numberAt(row.result, 'metrics', 'tokens') ?? 1) : 1);
    const partsOf = (row) => partsAt(row.result, choice.phase).map(([key, value], i) => {
      const [name, colour, opacity] = causes.get(key) ?? [key, i % 8, 1];
      return { name, value: value * factor(row), colour: place.colours.series[colour], opacity };
    });
    return partsDrawing(some, choice, partsOf, titles[choice.as], choice.as === 'share', place);
  },
};

const statesChart = {
  id: 'states', title: 'How experts were found', wide: overSeeds(rows).length > fewResults,
  note: 'Experts used, by what the cache had of them.',
  applies: (some) => some.some((row) => partsAt(row.result, 'hits').length > 0),
  choices: () => [{ key: 'phase', label: 'While', options: [['decode_hits', 'decoding'], ['hits', 'in the whole run']], chosen: 'decode_hits' },
    ...placeChoices(rows.filter((row) => partsAt(row.result, 'decode_hits').length > 0))],
  draw(some, choice, place) {
    const partsOf = (row) => states.map(([key, name, colour]) => ({ name: `${key}: ${name}`, value: numberAt(row.result, choice.phase, key) ?? 0,
      colour: place.colours.series[colour], opacity: 1 })).filter(({ value }) => value > 0);
    return partsDrawing(some, choice, partsOf, 'share of the experts used, %', true, place);
  },
};

const layerMetrics = [
  ...states.map(([key, name]) => ({ key, name: `Found ${name}`.replace('Found missing', 'Missing'), unit: '%', of: (layers, i) => {
    const found = states.map(([state]) => numberAt(layers, 'decode_hits', state, i) ?? 0);
    return shareOf(found[states.findIndex(([state]) => state === key)], sumOf(found));
  } })),
  { key: 'time', name: 'Time decoding', unit: 'ms a token', of: (layers, i, tokens) => scaled(numberAt(layers, 'decode_stall_s', i), 1e3 / tokens) },
];

const layersChart = {
  id: 'layers', title: 'Layer by layer', wide: true,
  note: 'While decoding. A layer\'s time is that of its attention and its experts.',
  applies: (some) => some.some((row) => listAt(row.result.layers, 'decode_stall_s').length > 0),
  choices: () => {
    const having = ({ of }, holds) => rows.filter((row) => listAt(row.result.layers, 'decode_stall_s').some((_, i) => holds(of(row.result.layers, i, 1))));
    const known = layerMetrics.filter((metric) => having(metric, (value) => value > 0).length > 0);
    const options = known.map((metric) => [metric.key, titleOf(metric)]);
    return [{ key: 'metric', label: 'Show', options, chosen: options[0]?.[0] ?? 'time' }, ...placeChoices(known.length === 0 ? [] : having(known[0], (value) => value !== null))];
  },
  draw(some, choice, place) {
    const metric = layerMetrics.find(({ key }) => key === choice.metric);
    const { groups, over, numbers, where } = placed(some.filter((row) => listAt(row.result.layers, 'decode_stall_s').length > 0), choice);
    const names = labelsOf(groups.map(({ row }) => row), ['seed']);
    const all = over === '' ? [{ name: '', groups: groups.map((group) => ({ ...group, at: names.get(group.row) })) }] : panelsOf(groups, over, numbers);
    const panels = all.slice(0, mostPanels).map(({ name, groups: of }) => this.cellsOf(name, of.slice(0, mostBars), metric)).filter(({ cells }) => cells.length > 0);
    if (panels.length === 0) return null;
    const cells = panels.flatMap((panel) => panel.cells);
    const domain = [Math.min(...cells.map(({ value }) => value)), Math.max(...cells.map(({ value }) => value))];
    const layers = Array.from({ length: Math.max(...cells.map(({ layer }) => layer)) + 1 }, (_, i) => i);
    const { columns, width } = panelSizes(panels.length, place.width);
    const sentence = extremes(cells.map((cell) => ({ label: `${cell.tip[0][1]}, layer ${cell.layer}`, value: cell.value })), metric)
      + (over === '' ? firstOf(mostBars, groups.length) : firstOf(mostPanels, all.length)) + where;
    return {
      panels: panels.map(({ name, labels, cells: drawn }, i) => ({ title: name, spec: heatSpec({ cells: drawn, labels, layers, title: titleOf(metric), domain,
        yTitle: over, legend: i === 0, colours: place.colours, width, description: `Heat map: ${titleOf(metric)} by layer${name === '' ? '' : ` of ${name} over ${over}`}. ${sentence}` }) })),
      columns, sentence, legend: [], head: ['', 'layer', titleOf(metric)], body: cells.map((cell) => [cell.tip[0][1], cell.layer, cell.value]),
    };
  },
  /// The cells of a panel: a row for each result, a column for each layer, means over the seeds.
  cellsOf(name, groups, metric) {
    const labels = distinctLabels(groups.map(({ at }) => at));
    const ofRow = ({ result }, layer) => metric.of(result.layers, layer, Math.max(1, numberAt(result, 'metrics', 'tokens') ?? 1));
    const cells = groups.flatMap(({ row, repeats }, r) => listAt(row.result.layers, 'decode_stall_s').map((_, layer) => {
      const values = repeats.map((one) => ofRow(one, layer)).filter((value) => value !== null);
      const value = values.length === 0 ? null : meanOf(values);
      const of = name === '' ? labels[r] : `${name} at ${labels[r]}`;
      return { label: labels[r], layer, value, tip: [['', of], ['layer', String(layer)], [metric.name, withUnit(value, metric)]] };
    })).filter(({ value }) => value !== null);
    return { name, labels: labels.filter((label) => cells.some((cell) => cell.label === label)), cells };
  },
};
