
// What charts are drawn with: looks, names that fit, and a Vega specification for each kind of drawing.

const shapes = [['circle', '●'], ['square', '■'], ['triangle-up', '▲'], ['diamond', '◆'], ['cross', '✚'],
                ['triangle-down', '▼'], ['triangle-right', '▶'], ['triangle-left', '◀']];
const dashes = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]];
const barOpacity = 0.9, paleOpacity = 0.35;
const mostBars = 80, mostLines = 32;  // more cannot be told apart: filters choose which

/// What a chart says that leaves some out.
function firstOf(most, count) {
  return count > most ? ` The first ${most} of ${count}.` : '';
}

const wideRange = 20;  // greatest to least, from where a logarithm shows more

/// Colours of the theme that is on, as the browser resolves them.
function themeColours() {
  const probe = document.body.appendChild(make('span', { hidden: true }));
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = { ink: colour('ink'), quiet: colour('quiet'), line: colour('line'), ground: colour('ground'), accent: colour('accent'),
                    series: Array.from({ length: 8 }, (_, i) => colour(`series-${i}`)) };
  probe.remove();
  return colours;
}

/// How the i-th of several looks: colour and shape together tell 64 apart, colour and dash 32.
function lookOf(i, colours) {
  const round = Math.floor(i / 8);
  const [shape, sign] = shapes[(i + round) % 8];
  return { colour: colours.series[i % 8], shape, sign, dash: dashes[round % 4] };
}

const states = [['F', 'in full', 0], ['C', 'compressed', 5], ['S', 'sign-mantissa only', 2], ['E', 'exponents only', 4], ['M', 'missing', 1]];

// What the time of a run goes to (stall_s), what it is called, and its look: a colour of the palette and how full it is. Two
// that look the same are never in one run: those of compressed weights and those of a cluster.
const causes = new Map(Object.entries({
  ssd_read: ['SSD', 1, 1], page_cache_read: ['page cache', 4, 1], decompress: ['decompress', 0, 1], recover: ['recover', 5, 1],
  expert_compute: ['experts', 2, 1], dense_compute: ['dense', 2, 0.5], cpu_experts: ['experts on the CPU', 6, 1], host: ['host', 7, 1],
  prefetch: ['prefetch, late', 5, 0.6], expert_load: ['expert loads', 3, 1], low_score_load: ['low-score loads', 3, 0.5],
  activations: ['activations', 4, 0.5], prediction: ['prediction', 6, 0.5], all_reduce: ['all-reduce', 0, 0.5],
  kv_swap: ['KV swap', 1, 0.5], network: ['network', 0, 1], remote_experts: ['experts elsewhere', 5, 1], recovery: ['recovery', 7, 0.5],
  exchange: ['exchange', 0, 0.75], drafting: ['drafting', 6, 0.75],
}));

/// Ticks of a logarithmic axis over these values: powers of ten, with their twos and fives where there are few.
function logTicks(values) {
  const [low, high] = [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)))];
  const factors = high - low > 2 ? [1] : [1, 2, 5];
  return Array.from({ length: high - low + 1 }, (_, i) => factors.map((factor) => Number(`${factor}e${low + i}`))).flat();
}
/// An axis of numbers; `log`: of these values on a logarithmic scale.
const numberAxis = (axis, log, values) => ({ labelOverlap: true, format: '~f', domain: false, ...axis, ...(log ? { values: logTicks(values) } : {}) });

/// A chart's frame: as wide as its place, labels included.
function frame(width, height, description) {
  return { description, width, height, padding: { left: 0, right: 6, top: 4, bottom: 2 }, autosize: { type: 'fit-x', contains: 'padding' } };
}
const tipOf = { tooltip: { signal: 'datum.tip' }, description: { signal: 'datum.text' } };
const sayTip = (tip) => tip.map(([name, value]) => `${name}: ${value}`).join('; ');
const withText = (datum) => ({ ...datum, text: sayTip(datum.tip) });
const labelRoom = (width) => Math.round(Math.min(230, width * 0.42));
const labelPen = document.createElement('canvas').getContext('2d');
labelPen.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
const labelWidth = (text) => labelPen.measureText(text).width;

/// Names without what all begin or end with, in whole words, where they are too long for `room` pixels. What differs stays.
function withoutCommon(labels, room) {
  if (unique(labels).length < 2 || labels.every((label) => labelWidth(label) <= room)) return labels;
  const words = labels.map((label) => label.split(/(?<=[-_/ ])/));
  const least = Math.min(...words.map((of) => of.length));
  const same = (at) => words.every((of) => at(of) === at(words[0]));
  let front = 0, back = 0;
  while (front < least - 1 && same((of) => of[front])) ++front;
  while (back < least - 1 - front && same((of) => of[of.length - 1 - back])) ++back;
  return words.map((of) => `${front > 0 ? '…' : ''}${of.slice(front, of.length - back).join('').trim()}${back > 0 ? '…' : ''}`);
}

/// The names beside the places of a scale, as Vega writes them: in lines where they are long, never cut.
/// -> {axis: what an axis is given for it, lines: the most of a name}
function nameAxis(labels, width) {
  const room = labelRoom(width);
  const broken = withoutCommon(labels, room).map((label) => {
    const lines = [];
    for (const word of label.split(/(?<=[-_/]|· )/)) {  // a value and its unit stay together
      const last = lines.length - 1;
      if (last >= 0 && labelWidth(lines[last] + word.trimEnd()) <= room) lines[last] += word;
      else lines.push(word);
    }
    return lines.map((line) => line.trimEnd()).join('\n');
  });
  const text = new Map(labels.map((label, i) => [label, broken[i].split('\n')]));
  const signal = `names[datum.value]`;
  return { names: Object.fromEntries(text), lines: Math.max(1, ...[...text.values()].map((lines) => lines.length)),
           axis: { orient: 'left', scale: 'y', ticks: false, domain: false, labelLimit: 0, labelPadding: 8, labelLineHeight: 13,
                   encode: { labels: { update: { text: { signal } } } } } };
}

/// Names made different where they are the same, so that each has a place of its own.
function distinctLabels(labels) {
  const seen = new Map();
  return labels.map((label) => {
    const times = (seen.get(label) ?? 0) + 1;
    seen.set(label, times);
    return times === 1 ? label : `${label} (${times})`;
  });
}

/// Bars beside their names, or dots on a logarithmic scale, which has no zero for a bar to begin at.
function barSpec({ bars, title, log, colours, width, description }) {
  const value = { scale: 'x', field: 'value' };
  const y = { scale: 'y', field: 'label', band: 0.5 };
  const names = nameAxis(bars.map((bar) => bar.label), width);
  const step = 9 + 13 * names.lines;
  const mark = log
    ? [{ type: 'rule', from: { data: 'bars' }, encode: { update: { x: { value: 0 }, x2: value, y, stroke: { value: colours.line } } } },
       { type: 'symbol', from: { data: 'bars' }, encode: { update: { x: value, y, size: { value: 90 }, fill: { field: 'colour' }, ...tipOf } } }]
    : [{ type: 'rect', from: { data: 'bars' }, encode: { update: { x: { scale: 'x', value: 0 }, x2: value, y: { scale: 'y', field: 'label' },
         height: { scale: 'y', band: 1 }, fill: { field: 'colour' }, fillOpacity: { field: 'opacity' }, ...tipOf }, hover: { fillOpacity: { value: 1 } } } }];
  return {
    ...frame(width, bars.length * step + 4, description),
    signals: [{ name: 'names', value: names.names }],
    data: [{ name: 'bars', values: bars.map(withText) }],
    scales: [
      { name: 'y', type: 'band', domain: bars.map((bar) => bar.label), range: [0, bars.length * step], paddingInner: 0.28, paddingOuter: 0.14 },
      { name: 'x', type: log ? 'log' : 'linear', zero: !log, nice: true, range: [0, { signal: 'max(40, width - 52)' }],
        domain: { data: 'bars', fields: log ? ['low', 'high'] : ['value', 'high'] } }],
    axes: [names.axis,
           numberAxis({ orient: 'bottom', scale: 'x', title, tickCount: 4 }, log, bars.flatMap(({ low, high }) => [low, high]))],
    marks: [
      ...mark,
      { type: 'rule', from: { data: 'bars' }, encode: { update: { x: { scale: 'x', field: 'low' }, x2: { scale: 'x', field: 'high' }, y,
        stroke: { value: colours.ink }, strokeWidth: { signal: 'datum.high > datum.low ? 1.5 : 0' } } } },
      { type: 'text', from: { data: 'bars' }, encode: { update: { x: { scale: 'x', field: 'high' }, y, dx: { value: 8 }, baseline: { value: 'middle' },
        fill: { value: colours.ink }, fontSize: { value: 12 }, text: { field: 'number' } } } }],
  };
}

/// Bars of parts, one behind the other.
function stackSpec({ labels, parts, title, most, colours, width, description }) {
  const names = nameAxis(labels, width);
  const step = 11 + 13 * names.lines;
  return {
    ...frame(width, labels.length * step + 4, description),
    signals: [{ name: 'names', value: names.names }],
    data: [{ name: 'parts', values: parts.map(withText) }],
    scales: [
      { name: 'y', type: 'band', domain: labels, range: [0, labels.length * step], paddingInner: 0.28, paddingOuter: 0.14 },
      { name: 'x', type: 'linear', domain: [0, most], nice: most !== 100, range: 'width' }],
    axes: [names.axis,
           { orient: 'bottom', scale: 'x', title, tickCount: 5, labelOverlap: true, labelFlush: true, format: '~f', domain: false }],
    marks: [{ type: 'rect', from: { data: 'parts' }, encode: {
      update: { x: { scale: 'x', field: 'from' }, x2: { scale: 'x', field: 'to' }, y: { scale: 'y', field: 'label' },
                height: { scale: 'y', band: 1 }, fill: { field: 'colour' }, fillOpacity: { field: 'opacity' },
                stroke: { value: colours.ground }, strokeWidth: { value: 1 }, ...tipOf },
      hover: { stroke: { value: colours.ink } } } }],
  };
}

/// Lines over numbers, a mark on each point or, where they are many, on the last one; a band from the least to the most of repeats.
/// xDomain, yDomain: of small multiples, which share them. placed: the axis names the places of the points. rules: [{upright, at, colour}] across the whole; points may be `hollow`.
function lineSpec({ lines, xTitle, title, xLog = false, log, marked, colours, width, height, description, xDomain, yDomain, placed = marked,
                    rules = [] }) {
  const points = lines.flatMap((line) => line.points.map((point) => withText({ ...point, ...line.look, series: line.name, alone: line.points.length === 1 })));
  const places = unique(points.map((point) => point.x)).sort((a, b) => a - b);
  const lasts = lines.map((line) => withText({ ...line.points[line.points.length - 1], ...line.look }));
  const x = { scale: 'x', field: 'x' };
  const y = { scale: 'y', field: 'y' };
  const symbol = { x, y, shape: { field: 'shape' }, fill: { signal: `datum.hollow ? ${JSON.stringify(colours.ground)} : datum.colour` },
                   stroke: { signal: `datum.hollow ? datum.colour : ${JSON.stringify(colours.ground)}` }, size: { value: 80 }, ...tipOf };
  const across = ({ upright, at, colour }) => ({ type: 'rule', encode: { update: {
    ...(upright ? { x: { scale: 'x', value: at }, y: { value: 0 }, y2: { signal: 'height' } }
                : { y: { scale: 'y', value: at }, x: { value: 0 }, x2: { signal: 'width' } }),
    stroke: { value: colour }, strokeWidth: { value: 1.5 }, strokeDash: { value: [5, 3] } } } });
  return {
    ...frame(width, height, description),
    signals: [{ name: 'places', value: Object.fromEntries(places.map((place) => [place, shortNumber(place, 4)])) }],
    data: [{ name: 'points', values: points }, { name: 'lasts', values: lasts }],
    scales: [
      { name: 'x', type: xLog ? 'log' : 'linear', domain: xDomain ?? { data: 'points', field: 'x' }, zero: false, range: 'width', padding: 8 },
      { name: 'y', type: log ? 'log' : 'linear', zero: !log, nice: true, range: 'height', domain: yDomain ?? { data: 'points', fields: ['low', 'high'] } }],
    axes: [{ orient: 'bottom', scale: 'x', title: xTitle, tickCount: { signal: 'width / 80' }, labelOverlap: true, format: '~f',
             ...(placed && places.length <= 12 ? { values: places, encode: { labels: { update: { text: { signal: 'places[datum.value]' } } } } } : {}) },
           numberAxis({ orient: 'left', scale: 'y', title, tickCount: 5, grid: true, ticks: false }, log, yDomain ?? points.flatMap(({ low, high }) => [low, high]))],
    marks: [
      ...rules.map(across),
      { type: 'group', from: { facet: { name: 'line', data: 'points', groupby: 'series' } },
        marks: [...(points.some(({ low, high }) => high > low) ? [{ type: 'area', from: { data: 'line' }, encode: { update: { x,
          y: { scale: 'y', field: 'low' }, y2: { scale: 'y', field: 'high' }, fill: { field: 'colour' }, fillOpacity: { value: 0.18 } } } }] : []),
          { type: 'line', from: { data: 'line' }, encode: { update: { x, y, stroke: { field: 'colour' }, strokeWidth: { value: 2 },
          strokeDash: { field: 'dash' }, defined: { signal: 'isValid(datum.y)' } } } }] },
      { type: 'rule', from: { data: 'points' }, encode: { update: { x, y: { scale: 'y', field: 'low' }, y2: { scale: 'y', field: 'high' },
        stroke: { field: 'colour' }, strokeWidth: { signal: 'datum.alone && datum.high > datum.low ? 1.5 : 0' } } } },
      { type: 'symbol', from: { data: marked ? 'points' : 'lasts' }, encode: { update: symbol } },
      ...(marked ? [] : [{ type: 'symbol', from: { data: 'points' }, encode: { update: { ...symbol, opacity: { value: 0 } }, hover: { opacity: { value: 1 } } } }])],
  };
}

/// size: of a mark, in square pixels; those of the front have twice as much.
function scatterSpec({ points, front, xTitle, title, xLog, log, colours, width, height, description, size = 80 }) {
  const x = { scale: 'x', field: 'x' };
  const y = { scale: 'y', field: 'y' };
  const scale = (name, range, isLog) => ({ name, type: isLog ? 'log' : 'linear', zero: false, nice: true, range, padding: 12,
                                           domain: { data: 'points', field: name } });
  return {
    ...frame(width, height, description),
    data: [{ name: 'points', values: points.map(withText) }, { name: 'front', values: front.map(withText) }],
    scales: [scale('x', 'width', xLog), scale('y', 'height', log)],
    axes: [numberAxis({ orient: 'bottom', scale: 'x', title: xTitle, tickCount: { signal: 'width / 90' }, grid: true }, xLog, points.map((point) => point.x)),
           numberAxis({ orient: 'left', scale: 'y', title, tickCount: 5, grid: true }, log, points.map((point) => point.y))],
    marks: [
      { type: 'line', from: { data: 'front' }, encode: { update: { x, y, interpolate: { value: 'step-after' }, stroke: { value: colours.quiet },
        strokeWidth: { value: 1.5 }, strokeDash: { value: [4, 3] } } } },
      { type: 'symbol', from: { data: 'points' }, encode: {
        update: { x, y, shape: { field: 'shape' }, fill: { field: 'colour' }, size: { signal: `datum.best ? ${2 * size} : ${size}` },
                  fillOpacity: { signal: 'datum.oracle ? 0 : datum.best ? 1 : 0.65' },
                  stroke: { signal: `datum.oracle ? datum.colour : ${JSON.stringify(colours.ground)}` }, ...tipOf },
        hover: { fillOpacity: { value: 1 }, stroke: { value: colours.ink } } } }],
  };
}

/// Parts that stand on each other, over numbers; one place alone is as wide as all. xDomain: from the least number to the most.
function areaSpec({ areas, xTitle, title, xDomain, most, colours, width, height, description }) {
  const x = { scale: 'x', field: 'x' }, y = { scale: 'y', field: 'from' }, y2 = { scale: 'y', field: 'to' };
  const fill = { fill: { field: 'colour' } };
  return {
    ...frame(width, height, description),
    data: [{ name: 'areas', values: areas.map(withText) }],
    scales: [{ name: 'x', type: 'linear', domain: xDomain, zero: false, range: 'width' },
             { name: 'y', type: 'linear', domain: [0, most], nice: most !== 100, range: 'height' }],
    axes: [{ orient: 'bottom', scale: 'x', title: xTitle, tickCount: { signal: 'width / 80' }, labelOverlap: true, labelFlush: true, format: '~f' },
           { orient: 'left', scale: 'y', title, tickCount: 5, labelOverlap: true, format: '~f', domain: false }],
    marks: [
      { type: 'group', from: { facet: { name: 'part', data: 'areas', groupby: 'name' } },
        marks: [{ type: 'area', from: { data: 'part' }, encode: { update: { x, y, y2, ...fill, fillOpacity: { field: 'opacity' },
          stroke: { value: colours.ground }, strokeWidth: { value: 0.5 } } } }] },
      // What a pointer finds: the part at the nearest place.
      { type: 'rect', from: { data: 'areas' }, encode: {
        update: { x: { scale: 'x', field: 'left' }, x2: { scale: 'x', field: 'right' }, y, y2, ...fill,
                  fillOpacity: { signal: 'datum.alone ? datum.opacity : 0' }, strokeOpacity: { value: 0 }, ...tipOf },
        hover: { stroke: { value: colours.ink }, strokeOpacity: { value: 1 } } } }],
  };
}

/// A row for each label, a column for each layer. domain: of the values; yTitle: the key whose values the labels are, or "", when
/// they are names of results.
function heatSpec({ cells, labels, layers, title, domain, yTitle, legend, colours, width, description }) {
  const names = nameAxis(labels, width);
  const height = yTitle === '' ? labels.length * (9 + 13 * names.lines) : Math.max(60, Math.min(320, 22 * labels.length));
  return {
    ...frame(width, height, description),
    signals: [{ name: 'names', value: names.names }],
    data: [{ name: 'cells', values: cells.map(withText) }],
    scales: [
      { name: 'x', type: 'band', domain: layers, range: 'width' },
      { name: 'y', type: 'band', domain: labels, range: 'height' },
      { name: 'heat', type: 'linear', domain, range: { scheme: 'cividis' } }],
    axes: [{ ...names.axis, ...(yTitle === '' ? {} : { title: yTitle, labelOverlap: true }) },
           { orient: 'bottom', scale: 'x', title: 'MoE layer', ticks: false, domain: false, labelOverlap: true }],
    legends: legend ? [{ fill: 'heat', orient: 'bottom', direction: 'horizontal', title, gradientLength: { signal: 'min(width, 280)' }, gradientThickness: 10,
                         format: '~f', tickCount: 4 }] : [],
    marks: [{ type: 'rect', from: { data: 'cells' }, encode: {
      update: { x: { scale: 'x', field: 'layer' }, width: { scale: 'x', band: 1 }, y: { scale: 'y', field: 'label' }, height: { scale: 'y', band: 1 },
                fill: { scale: 'heat', field: 'value' }, stroke: { value: colours.ground }, strokeWidth: { value: 0.5 }, ...tipOf },
      hover: { stroke: { value: colours.ink }, strokeWidth: { value: 2 }, zindex: { value: 1 } } } }],
  };
}
