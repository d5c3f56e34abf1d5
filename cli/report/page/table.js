
// Small helpers for the document, and the table of results.

/// An element with attributes, and children that are elements or texts.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function makeSelect(id, label, options, chosen, change) {
  const select = make('select', { id, onchange: () => change(select.value) });
  for (const [value, text] of options) select.append(make('option', { value, selected: value === chosen }, text));
  return make('label', { for: id }, label, select);
}

function makeCheck(id, label, checked, change) {
  const box = make('input', { type: 'checkbox', id, checked, onchange: () => change(box.checked) });
  return make('label', { for: id, class: 'check' }, box, label);
}

/// Digits behind the point that show three digits of a column's least number.
function decimalsOf(values) {
  const sizes = values.filter((value) => value !== null && value !== 0).map(Math.abs);
  if (sizes.length === 0) return 0;
  return Math.min(4, Math.max(0, 2 - Math.floor(Math.log10(Math.min(...sizes)))));
}

/// A table that sorts by any of its columns, each {key, name, of: what a row has, order: what it is sorted by, isNumber, unit, better:
/// 1 where more is}; the first column leads. Rows have an `index` of their own.
class SortedTable {
  constructor(table, columns, caption) {
    this.table = table;
    this.columns = columns;
    this.caption = caption;
    this.sorted = null;
    table.classList.add('sorted');
  }

  draw(some) {
    this.some = some;
    this.table.replaceChildren(make('caption', { class: 'hidden' }, this.caption), this.head(), this.body());
  }

  /// First upwards, or downwards where more is better; then the other way round.
  sortBy(column) {
    const first = column.better === 1 ? 'descending' : 'ascending';
    const turned = this.sorted?.direction === 'ascending' ? 'descending' : 'ascending';
    this.sorted = { column, direction: this.sorted?.column === column ? turned : first };
    this.draw(this.some);
    this.table.querySelector(`th[aria-sort] button`).focus();
  }

  head() {
    const cells = this.columns.map((column, i) => make('th', {
      scope: 'col', class: column.isNumber ? null : i === 0 ? 'name lead' : 'name',
      'aria-sort': this.sorted?.column === column ? this.sorted.direction : null,
    }, make('button', { type: 'button', 'data-key': column.key, onclick: () => this.sortBy(column) }, column.name),
    ...(column.isNumber ? [make('br'), make('span', { class: 'unit' }, column.unit)] : [])));
    return make('thead', {}, make('tr', {}, ...cells));
  }

  body() {
    const decimals = new Map(this.columns.filter(({ isNumber }) => isNumber).map((column) => [column.key, decimalsOf(this.some.map(column.of))]));
    const say = (column, number) => (number !== 0 && Math.abs(number) < 1e-4 ? shortNumber(number) : number.toFixed(decimals.get(column.key)));
    return make('tbody', {}, ...this.inOrder().map((row) => make('tr', { 'data-row': row.index }, ...this.columns.map((column, i) => this.cell(row, column, i === 0, say)))));
  }

  cell(row, column, leads, say) {
    const value = column.of(row);
    if (leads) return make('th', { scope: 'row', class: 'name lead', title: value }, value);
    if (!column.isNumber) return make('td', { class: 'name', title: value }, value);
    return value === null ? make('td', {}, '–') : this.numberCell(row, column, value, say);
  }

  numberCell(row, column, value, say) {
    return make('td', {}, say(column, value));
  }

  inOrder() {
    if (this.sorted === null) return this.some;
    const { column, direction } = this.sorted;
    const sign = direction === 'ascending' ? 1 : -1;
    const none = (value) => value === null || value === undefined;
    return [...this.some].sort((one, other) => {
      const [a, b] = [column.order(one), column.order(other)];
      if (none(a) || none(b)) return none(a) - none(b);  // those without a number last, either way
      return sign * (typeof a === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true }));
    });
  }
}

/// The table of all results. Sorting is kept over changes of what is shown.
class ResultTable extends SortedTable {
  constructor(table) {
    super(table, [
      { key: 'series', name: 'System', of: (row) => nameOfSeries(row.series), order: (row) => row.series },
      ...axisNames.map((axis) => ResultTable.axisColumn(axis)),
      ...knownMetrics.map(({ key, name, unit, better }) => ({ key, name, unit, better, isNumber: true, of: (row) => row.values[key], order: (row) => row.values[key] })),
    ], '');
    this.all = this.columns;
    this.each = false;
    this.narrow = matchMedia('(max-width: 30rem)');
    this.narrow.addEventListener('change', () => {
      this.showSeeds(this.each);
      if (this.shown) this.show(this.shown);
    });
    this.showSeeds(false);
  }

  /// On a phone the figures stand beside the system, whose name says what else the row is of; its columns are behind them.
  inReach(columns) {
    if (!this.narrow.matches) return columns;
    const [system, ...others] = columns;
    const axes = others.filter(({ key }) => key.startsWith('axis '));
    const whole = { ...system, of: (row) => [system, ...axes].map(({ of }) => of(row)).filter((text) => text !== undefined).join(' · ') };
    return [whole, ...others.filter(({ isNumber }) => isNumber), ...others.filter(({ isNumber }) => !isNumber)];
  }

  /// Whether each seed has a row of its own; else repeats with other seeds are one row, of means and ranges.
  showSeeds(each) {
    this.each = each;
    this.repeated = !each && overSeeds(rows).length < rows.length;
    this.caption = this.repeated ? 'Results, one a row: means over the seeds, with the least and the most' : 'Results, one a row';
    this.columns = this.inReach(!this.repeated ? this.all : this.all.flatMap((column) => {
      if (column.key === 'axis seed') return [];
      if (column.key !== 'series') return [column];
      return [column, { key: 'seeds', name: 'Seeds', of: (row) => String(row.repeats), order: (row) => row.repeats }];
    }));
    if (this.sorted && !this.columns.includes(this.sorted.column)) this.sorted = null;
  }

  /// Shows these results.
  show(some) {
    this.shown = some;
    this.draw(this.repeated ? ResultTable.meanRows(some) : some);
  }

  /// A row for the repeats of each: as a result's, with `ranges` of its values.
  static meanRows(some) {
    return overSeeds(some).map(({ row, repeats }) => {
      const values = {}, ranges = {};
      for (const { key } of knownMetrics) {
        const spread = spreadOf(repeats, key);
        values[key] = spread?.mean ?? null;
        ranges[key] = spread && [spread.low, spread.high];
      }
      return { ...row, values, ranges, repeats: repeats.length };
    });
  }

  static axisColumn(axis) {
    const numbers = quantitiesOf(axis);
    const value = (row) => row.axes.get(axis);
    return { key: `axis ${axis}`, name: axis, of: value, order: (row) => (numbers === null ? value(row) : numbers.of.get(value(row))) };
  }

  body() {
    this.best = this.bestCells();
    return super.body();
  }

  /// With the range over the seeds; the best is marked.
  numberCell(row, column, value, say) {
    const [low, high] = (row.ranges?.[column.key] ?? [value, value]).map((number) => say(column, number));
    const range = low === high ? [] : [' ', make('span', { class: 'range' }, `(${low}–${high})`)];
    const is = this.best.has(`${row.index} ${column.key}`);
    return make('td', { class: is ? 'best' : null }, say(column, value), ...range, ...(is ? [make('span', { class: 'hidden' }, ' (best)')] : []));
  }

  /// The best of each column, of each scenario, oracles and results in which more requests fail aside; of a column in which all are the same, none is.
  bestCells() {
    const cells = new Set();
    for (const scenario of unique(this.some.map((row) => textAt(row.result, 'scenario')))) {
      const of = this.some.filter((row) => !row.oracle && !row.failsMore && textAt(row.result, 'scenario') === scenario);
      for (const metric of knownMetrics.filter(({ better }) => better !== 0)) {
        const values = of.map((row) => row.values[metric.key]).filter((value) => value !== null);
        const best = metric.better * Math.max(...values.map((value) => metric.better * value));
        if (values.every((value) => value === best)) continue;
        for (const row of of) if (row.values[metric.key] === best) cells.add(`${row.index} ${metric.key}`);
      }
    }
    return cells;
  }
}
