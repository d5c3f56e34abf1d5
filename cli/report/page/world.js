
// Published measurements beside predictions: a section for each file of `experiments/world/run.sh --out`. The program has checked
// them: values are above 0, errors not below 0; texts are anything.

const worlds = Array.isArray(report.worlds) ? report.worlds : [];
const worldFact = ({ rows: all }) => `${all.length}, of which ${all.filter(({ counted }) => counted).length} are counted`;
const inPercent = (share) => scaled(share, 100);
/// Predicted over measured less 1, in percent; null where nothing was predicted.
const errorOf = ({ measured }, predicted) => (predicted === null ? null : 100 * (predicted / measured - 1));
const signed = (percent) => (percent === null ? '–' : `${percent > 0 ? '+' : ''}${shortNumber(percent)} %`);

/// "+12", "-3", "0"; of what is far beyond any use of single digits, three of them.
function wholeSigned(percent) {
  const whole = Math.round(percent);
  return `${whole > 0 ? '+' : ''}${Math.abs(whole) < 1e6 ? whole : shortNumber(whole)}`;
}

/// What a step is made of, without its phase: "one GPU".
const placeOf = ({ group, phase }) => (group.endsWith(`, ${phase}`) ? group.slice(0, -phase.length - 2) : group);
/// Rows that can be drawn: those that were predicted, in a phase.
const drawnRows = ({ rows: all }) => all.filter(({ predicted, phase, group }) => predicted !== null && phase !== null && group !== null);
const placeNames = unique(worlds.flatMap((world) => drawnRows(world).map(placeOf))).sort();
const lookOfPlace = (row, colours) => lookOf(placeNames.indexOf(placeOf(row)), colours);

// The panels, each of one phase in one unit: a time's error is not that of its speed.
const worldPanels = [['decode', 'tok/s', 'Decode, tokens/s'], ['decode', 'ms', 'Decode, ms a token'],
                     ['prefill', 'tok/s', 'Prefill, tokens/s'], ['prefill', 'ms', 'Prefill, ms to the first token']];

function worldPoint(row, colours) {
  const say = (value) => `${shortNumber(value)} ${row.unit}`;
  return { x: row.measured, y: row.predicted, hollow: !row.counted, ...lookOfPlace(row, colours),
           tip: [['', `${row.id} · ${row.model}`], ['weights', row.weights], ['on', row.machine], ['in', row.runtime], ['measured', say(row.measured)],
                 ['predicted', say(row.predicted)], ['error', signed(errorOf(row, row.predicted))], ...(row.counted ? [] : [['not counted', row.why_not ?? '']])] };
}

/// Predicted against measured, both logarithmic on one range, with the line on which they are equal and the band of the tolerance.
function againstSpec({ points, tolerance, unit, colours, width, height, description }) {
  const values = points.flatMap(({ x, y }) => [x, y]);
  const domain = [Math.min(...values) / 1.25, Math.max(...values) * 1.25];
  const scale = (name, range) => ({ name, type: 'log', domain, nice: false, range });
  const ends = domain.map((at) => ({ at, low: at * (1 - tolerance), high: at * (1 + tolerance) }));
  const x = { scale: 'x', field: 'x' }, y = { scale: 'y', field: 'y' }, at = { scale: 'x', field: 'at' };
  const ticks = logTicks(domain).filter((tick) => tick >= domain[0] && tick <= domain[1]);
  const axis = (of) => ({ labelOverlap: true, format: '~f', domain: false, grid: true, ticks: false, ...of, ...(ticks.length > 1 ? { values: ticks } : {}) });
  return {
    ...frame(width, height, description),
    data: [{ name: 'points', values: points.map(withText) }, { name: 'ends', values: ends }],
    scales: [scale('x', 'width'), scale('y', 'height')],
    axes: [axis({ orient: 'bottom', scale: 'x', title: `measured, ${unit}` }), axis({ orient: 'left', scale: 'y', title: `predicted, ${unit}` })],
    marks: [
      { type: 'area', clip: true, from: { data: 'ends' }, encode: { update: { x: at, y: { scale: 'y', field: 'low' }, y2: { scale: 'y', field: 'high' },
        fill: { value: colours.quiet }, fillOpacity: { value: 0.16 } } } },
      { type: 'line', clip: true, from: { data: 'ends' }, encode: { update: { x: at, y: { scale: 'y', field: 'at' }, stroke: { value: colours.quiet },
        strokeWidth: { value: 1.5 }, strokeDash: { value: [5, 3] } } } },
      { type: 'symbol', from: { data: 'points' }, encode: {
        update: { x, y, shape: { field: 'shape' }, size: { value: 70 }, fill: { field: 'colour' }, fillOpacity: { signal: 'datum.hollow ? 0 : 0.8' },
                  stroke: { signal: `datum.hollow ? datum.colour : ${JSON.stringify(colours.ground)}` }, ...tipOf },
        hover: { fillOpacity: { value: 1 }, stroke: { value: colours.ink } } } }],
  };
}

/// "Decode, tokens/s: 20 of 22 counted points are within 30 %."
function nearSentence(title, some, tolerance) {
  const counted = some.filter(({ counted: is }) => is);
  const near = counted.filter(({ measured, predicted }) => Math.abs(predicted / measured - 1) <= tolerance);
  return `${title}: ${near.length} of ${counted.length} counted points are within ${shortNumber(100 * tolerance)} %.`;
}

const worldChart = (world, index) => ({
  id: `world${index === 0 ? '' : `-${index}`}`, title: 'Predicted against measured', wide: true,
  note: `On the dashed line a prediction is right; in the band it is off by ${shortNumber(100 * world.tolerance)} % at most. Both axes are logarithmic and show the same range.`,
  applies: () => true,
  choices: () => [],
  draw(some, choice, { colours, width: room }) {
    const drawn = drawnRows(world);
    const panels = worldPanels.map(([phase, unit, title]) => ({ title, unit: unit === 'ms' ? 'ms' : 'tokens/s', rows: drawn.filter((row) => row.phase === phase && row.unit === unit) }))
      .filter((panel) => panel.rows.length > 0);
    if (panels.length === 0) return null;
    const columns = panels.length > 1 && room >= 560 ? 2 : 1;
    const width = Math.min(620, Math.floor((room - 16 * (columns - 1)) / columns));
    const tolerance = world.tolerance;
    const places = placeNames.filter((name) => drawn.some((row) => placeOf(row) === name));
    return {
      columns, sentence: panels.map((panel) => nearSentence(panel.title, panel.rows, tolerance)).join(' '),
      panels: panels.map(({ title, unit, rows: of }) => ({ title, spec: againstSpec({ points: of.map((row) => worldPoint(row, colours)), tolerance, unit, colours,
        width, height: Math.round(Math.min(400, Math.max(240, 0.72 * width))), description: `Points: predicted against measured. ${nearSentence(title, of, tolerance)}` }) })),
      legend: [...places.map((name) => ({ name, ...lookOf(placeNames.indexOf(name), colours) })),
               { name: 'predicted as measured', colour: colours.quiet, sign: '- -' }, { name: `within ${shortNumber(100 * tolerance)} %`, colour: colours.quiet, sign: '▒' },
               ...(drawn.every(({ counted }) => counted) ? [] : [{ name: 'hollow: not counted', colour: colours.quiet, sign: '○' }])],
      head: ['', 'group', 'unit', 'measured', 'predicted', 'error, %'],
      body: drawn.map((row) => [row.id, row.group, row.unit, row.measured, row.predicted, errorOf(row, row.predicted)]),
    };
  },
});

const textColumn = (key, name, of) => ({ key, name, of, order: of });
const numberColumn = (key, name, unit, of, order = of) => ({ key, name, unit, of, order, isNumber: true });

const groupColumns = ({ tolerance }) => [
  textColumn('name', 'Group', ({ name }) => name),
  numberColumn('rows', 'Rows', '', (group) => group.rows),
  numberColumn('median_error', 'Error', 'median, %', (group) => inPercent(group.median_error)),
  numberColumn('median_error_source_left_out', 'Its source left out', 'median, %', (group) => inPercent(group.median_error_source_left_out)),
  numberColumn('nine_in_ten_factor_less_1', 'Nine in ten', 'factor less 1, %', (group) => inPercent(group.nine_in_ten_factor_less_1)),
  numberColumn('median_error_null_model', 'Null model', 'median, %', (group) => inPercent(group.median_error_null_model)),
  { ...numberColumn('within_tolerance', `Within ${shortNumber(100 * tolerance)} %`, '% of the rows', (group) => inPercent(group.within_tolerance)), better: 1 }];

const worldColumns = [
  textColumn('id', 'Row', ({ id }) => id),
  textColumn('model', 'Model', ({ model }) => model),
  textColumn('weights', 'Weights', ({ weights }) => weights),
  textColumn('machine', 'Machine', ({ machine, gpus }) => (gpus > 1 ? `${gpus} × ${machine}` : machine)),
  textColumn('runtime', 'Runtime', ({ runtime }) => runtime),
  textColumn('metric', 'Metric', ({ metric, unit }) => `${metric}, ${unit}`),
  numberColumn('measured', 'Measured', 'in its unit', ({ measured }) => measured),
  numberColumn('predicted', 'Predicted', 'in its unit', ({ predicted }) => predicted),
  // Sorted by how far off they are, whichever side they are on.
  ...[['error', 'Error', 'predicted'], ['left_out', 'Its source left out', 'predicted_source_left_out'], ['null_model', 'Null model', 'null_model']].map(([key, name, of]) =>
    numberColumn(key, name, '%', (row) => errorOf(row, row[of]), (row) => (row[of] === null ? null : Math.abs(errorOf(row, row[of]))))),
  textColumn('bound_by', 'Bound by', ({ bound_by: by }) => by ?? '–'),
  { ...textColumn('counted', 'Counted', ({ counted, why_not: why }) => (counted ? 'yes' : `no: ${why}`)), isLong: true },
  textColumn('group', 'Group', ({ group }) => group ?? '–'),
  { ...textColumn('source', 'Source', ({ source }) => source), isLong: true }];

/// Numbers of rows are of many sizes: each with three digits that say something, errors in whole percent.
class WorldTable extends SortedTable {
  numberCell(row, column, value) {
    return make('td', {}, column.unit === '%' ? wholeSigned(value) : shortNumber(value, 4));
  }
  cell(row, column, leads, say) {
    const cell = super.cell(row, column, leads, say);
    if (column.isLong) cell.className = 'name reason';
    return cell;
  }
}
/// The same of groups: shares in whole percent.
class GroupTable extends SortedTable {
  numberCell(row, column, value) {
    return make('td', {}, value < 1e6 ? value.toFixed(column.key === 'within_tolerance' ? 1 : 0) : shortNumber(value));
  }
}

/// A heading, and a table under it that scrolls within its place.
function titledTable(id, title, note, table) {
  return [make('h3', { id }, title), make('p', { class: 'note' }, note), make('div', { class: 'scroll tall', role: 'region', 'aria-labelledby': id, tabindex: '0' }, table)];
}

/// A file's section, in its place. -> the figure of its chart
function fillWorld(world, index) {
  const id = `world${index}`;
  const figure = new Figure(worldChart(world, index));
  const of = listAt(world, 'files').join(', ');
  const [groups, all] = [make('table', { id: `${id}-groups` }), make('table', { id: `${id}-rows` })];
  byId('worlds').append(make('section', { class: 'world', 'aria-labelledby': `${id}-title` },
    make('h2', { id: `${id}-title` }, worlds.length === 1 ? 'Published measurements beside predictions' : `Published measurements beside predictions: ${of}`),
    ...(world.question === report.question ? [] : [make('p', { class: 'question' }, world.question)]), make('p', { class: 'answer' }, world.answer), figure.element,
    ...(world.groups.length === 0 ? [] : titledTable(`${id}-errors`, 'Error by group',
      'Absolute errors of the rows that are counted. Its source left out: predicted by constants fitted to other sources; nine in ten rows are then within the factor. The null model has one efficiency for each runtime.', groups)),
    ...titledTable(`${id}-all`, 'All rows', `From ${of}. Error: predicted over measured, less 1. A column's name sorts by it, errors by how far off they are.`, all)));
  new GroupTable(groups, groupColumns(world), 'Errors, a group a row').draw(world.groups.map((group, i) => ({ ...group, index: i })));
  new WorldTable(all, worldColumns, 'Measurements, one a row').draw(world.rows.map((row, i) => ({ ...row, index: i })));
  return figure;
}
const fillWorlds = () => worlds.map(fillWorld);
