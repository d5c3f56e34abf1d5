
// The page: its head, the filters, the figures around the charts, where the numbers are from.

const byId = (id) => document.getElementById(id);
const hiddenSeries = new Set();
const axisChoice = new Map();  // axis -> the one value that is shown
const isShown = (row) => !hiddenSeries.has(row.series) && [...axisChoice].every(([axis, value]) => row.axes.get(axis) === value);

/// A chart in its place: heading, controls, drawing, legend and the numbers as a table.
class Figure {
  constructor(chart) {
    this.chart = chart;
    this.choice = { log: null };
    this.views = [];
    this.drawing = make('div', { class: 'drawing', id: `${chart.id}-drawing` });
    this.sentence = make('p', { class: 'note' });
    this.legend = make('ul', { class: 'legend', 'aria-label': 'Legend' });
    this.numbers = make('div', { class: 'scroll', role: 'region', tabindex: '0', 'aria-label': `Numbers of the chart: ${chart.title}` });
    this.details = make('details', { ontoggle: () => this.fillNumbers() }, make('summary', {}, 'Numbers'), this.numbers);
    this.element = make('figure', { id: `chart-${chart.id}`, class: chart.wide ? 'wide' : null, 'aria-labelledby': `${chart.id}-title` },
      make('figcaption', {}, make('h3', { id: `${chart.id}-title` }, chart.title), ...(chart.note ? [make('p', { class: 'note' }, chart.note)] : [])),
      this.controls(), this.drawing, this.legend, this.sentence, this.details);
  }

  controls() {
    const fields = make('div', { class: 'fields' });
    this.uses = [];  // fields that only some choices use: [element, whether a choice does]
    for (const { key, label, options, chosen, isUsed } of this.chart.choices()) {
      this.choice[key] = chosen;
      if (options.length < 2) continue;
      const field = makeSelect(`${this.chart.id}-${key}`, label, options, chosen, (value) => {
        this.choice[key] = value;
        this.choice.log = null;
        this.draw(this.some);
      });
      if (isUsed) this.uses.push([field, isUsed]);
      fields.append(field);
    }
    if (this.chart.log)
      fields.append(makeCheck(`${this.chart.id}-log`, 'logarithmic', false, (on) => {
        this.choice.log = on;
        this.draw(this.some);
      }));
    return fields;
  }

  draw(some) {
    this.some = some;
    for (const view of this.views) view.finalize();
    this.views = [];
    const width = Math.floor(this.drawing.clientWidth);
    this.width = width;
    const colours = themeColours();
    this.drawn = this.chart.draw(some, this.choice, { colours, width });
    for (const [field, isUsed] of this.uses) field.hidden = !isUsed(this.choice);
    this.details.hidden = this.drawn === null;
    this.sentence.textContent = this.drawn?.sentence ?? '';
    this.legend.replaceChildren(...(this.drawn?.legend ?? []).map((entry) => legendEntry(entry)));
    this.fillNumbers();
    if (this.drawn === null) {
      this.drawing.replaceChildren(make('p', { class: 'empty' }, 'Nothing that is shown has this.'));
      return;
    }
    const log = this.element.querySelector(`#${this.chart.id}-log`);
    if (log) log.checked = this.drawn.log;
    const panels = this.drawn.panels ?? [{ title: '', spec: this.drawn.spec }];
    this.drawing.style.setProperty('--columns', this.drawn.columns ?? 1);
    this.drawing.replaceChildren();
    for (const { title, spec } of panels) {
      // One picture for those who listen, with a label that says its answer; the numbers are in the table below.
      const picture = make('div');
      this.drawing.append(make('div', {}, ...(title === '' ? [] : [make('h4', {}, title)]), picture));
      const view = new vega.View(vega.parse(spec, vegaConfig(colours), { ast: true }), {
        expr: vega.expressionInterpreter, renderer: 'svg', container: picture, hover: true, tooltip: showTip });
      view.run();
      picture.querySelector('svg').setAttribute('aria-hidden', 'true');
      picture.removeAttribute('aria-roledescription');  // Vega has put its own on what it draws in
      picture.setAttribute('role', 'img');
      picture.setAttribute('aria-label', `${this.chart.title}. ${spec.description}`);
      this.views.push(view);
    }
  }

  /// Only where the reader looks: there may be many.
  fillNumbers() {
    this.numbers.replaceChildren();
    if (!this.details.open || !this.drawn) return;
    const most = 2000;
    const cell = (value, i) => (typeof value === 'number' ? make('td', {}, shortNumber(value, 5)) : make('td', { class: 'name' }, String(value)));
    this.numbers.append(make('table', {},
      make('thead', {}, make('tr', {}, ...this.drawn.head.map((name) => make('th', { scope: 'col' }, name)))),
      make('tbody', {}, ...this.drawn.body.slice(0, most).map((line) => make('tr', {}, ...line.map(cell))))));
    if (this.drawn.body.length > most) this.numbers.append(make('p', { class: 'note' }, `The first ${most} of ${this.drawn.body.length}.`));
  }

  resize() {
    if (this.some && Math.abs(Math.floor(this.drawing.clientWidth) - this.width) > 1) this.draw(this.some);
  }
}

function legendEntry({ name, colour, sign, opacity }) {
  const swatch = make('span', { 'aria-hidden': 'true' }, sign);
  swatch.style.color = colour;
  swatch.style.opacity = opacity ?? 1;
  return make('li', {}, swatch, name);
}

function vegaConfig(colours) {
  const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
  return {
    text: { font }, title: { font },
    axis: { labelFont: font, titleFont: font, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 'normal', titlePadding: 8,
            labelColor: colours.ink, titleColor: colours.quiet, gridColor: colours.line, domainColor: colours.line, tickColor: colours.line },
    legend: { labelFont: font, titleFont: font, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 'normal', labelColor: colours.ink,
              titleColor: colours.quiet },
  };
}

function showTip(handler, event, item, value) {
  const tip = byId('tip');
  tip.hidden = !Array.isArray(value);
  if (tip.hidden) return;
  const [[, head], ...lines] = value;
  tip.replaceChildren(make('strong', {}, head), make('dl', {}, ...lines.flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, text)])));
  const { width, height } = tip.getBoundingClientRect();
  const at = event.changedTouches ? event.changedTouches[0] : event;
  tip.style.left = `${Math.max(4, Math.min(at.clientX + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${at.clientY + height + 22 > innerHeight ? at.clientY - height - 10 : at.clientY + 14}px`;
}

/// What all results have of a text, most frequent first.
function listOf(key) {
  const texts = unique([...rows.map((row) => row.result), ...loads, ...worlds].map((result) => textAt(result, key)).filter((text) => text !== ''));
  return texts.length > 6 ? `${texts.slice(0, 6).join(', ')} and ${texts.length - 6} more` : texts.join(', ');
}

function fillHead() {
  document.title = report.title;
  byId('title').textContent = report.title;
  const questions = new Map();
  for (const result of [...rows.map((row) => row.result), ...loads])
    if (textAt(result, 'question')) questions.set(textAt(result, 'scenario'), textAt(result, 'question'));
  if (report.question) byId('questions').append(make('p', { class: 'question' }, report.question));
  else for (const [scenario, question] of questions) byId('questions').append(make('p', { class: 'question' }, make('b', {}, scenario), ' – ', question));
  const systems = allNames.length === 1 ? allNames[0] : `${allNames.length} systems`;
  const runs = rows.length + loads.length;
  const facts = [['Results', runs === 0 ? '' : `${runs}: ${systems}`], ['Requests', requestFiles.map(requestFact).join('; ')], ['Measurements', worlds.map(worldFact).join('; ')], ['Scenario', listOf('scenario')], ['Model', listOf('model')], ['Device', listOf('device')],
                 ['Axes', axisNames.map((axis) => `${axis} (${valuesOf(axis).length})`).join(', ')], ['Executor', listOf('executor')]];
  for (const [name, text] of facts) if (text) byId('facts').append(make('dt', {}, name), make('dd', {}, text));
  const version = listOf('version');
  byId('version').textContent = `Made by moelab${version === '' ? '' : ` ${version}`}. This page holds all its data and loads nothing.`;
}

/// A text and the results it is said of, the latter only where they are not all.
function saidOf(texts) {
  const said = new Map();
  rows.forEach((row) => {
    for (const text of unique(texts(row))) {
      if (!said.has(text)) said.set(text, []);
      said.get(text).push(row);
    }
  });
  return [...said].map(([text, of]) => {
    const names = unique(of.map((row) => row.series));
    const shortened = names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ');
    return { text, of: of.length === rows.length ? '' : ` (${names.length === seriesNames.length ? `${of.length} of ${rows.length} results` : shortened})` };
  });
}
const stringsAt = (row, key) => listAt(row.result, key).filter((line) => typeof line === 'string');
/// What was set for a run stands among its axes already.
const isAxis = (line) => axisNames.some((axis) => line.startsWith(`set for this run: ${axis} = `));
const lineItem = ({ text, of }) => make('li', {}, text, make('span', { class: 'of' }, of));

function fillWarnings() {
  const warnings = saidOf((row) => [...stringsAt(row, 'warnings'), ...(wasRun(row.result) ? [] : ['memory falls short: nothing was run'])]);
  byId('care').hidden = warnings.length === 0;
  byId('warnings').append(...warnings.map(lineItem));
}

// Kinds of origins that a number's provenance begins with, from the surest on.
const origins = [['measured', 'measured there'], ['datasheet', 'from data sheets'], ['paper', 'from papers'], ['derived', 'derived'], ['assumed', 'assumed']];

function fillSources() {
  const lines = saidOf((row) => stringsAt(row, 'provenance').filter((line) => !isAxis(line)));
  const kindOf = ({ text }) => /^(?:device|cluster) [^:]*: (\w+)/.exec(text)?.[1] ?? '';
  const numbers = lines.filter((line) => origins.some(([kind]) => kind === kindOf(line)));
  const others = lines.filter((line) => !numbers.includes(line));
  const place = byId('provenance');
  if (lines.length === 0) place.append(make('p', {}, 'These results say nothing of where their numbers are from.'));
  if (others.length > 0) place.append(make('h3', {}, 'The runs'), make('ul', {}, ...others.map(lineItem)));
  if (numbers.length === 0) return;
  const counts = origins.map(([kind, name]) => [kind, name, numbers.filter((line) => kindOf(line) === kind)]);
  place.append(make('h3', {}, 'Numbers of the devices'),
    make('dl', { class: 'origins' }, ...counts.map(([, name, of]) => make('div', {}, make('dt', {}, name), make('dd', {}, String(of.length))))));
  for (const [, name, of] of [...counts].reverse())
    if (of.length > 0) place.append(make('details', {}, make('summary', {}, `${of.length} ${name}`), make('ul', {}, ...of.map(lineItem))));
}

function fillFilters(update) {
  const place = byId('filters');
  const boxes = [];
  if (seriesNames.length > 1) {
    const chips = make('div', { class: 'chips' });
    seriesNames.forEach((name, i) => {
      const label = makeCheck(`series-${i}`, nameOfSeries(name), true, (on) => {
        if (on) hiddenSeries.delete(name);
        else hiddenSeries.add(name);
        update();
      });
      boxes.push([label.querySelector('input'), name]);
      chips.append(label);
    });
    place.append(make('fieldset', {}, make('legend', {}, 'Systems'), chips));
  }
  const fields = make('div', { class: 'fields' });
  axisNames.forEach((axis, i) => {
    const values = valuesOf(axis);
    fields.append(makeSelect(`axis-${i}`, axis, [['', 'all'], ...values.map((value, v) => [String(v), value])], '', (chosen) => {
      if (chosen === '') axisChoice.delete(axis);
      else axisChoice.set(axis, values[Number(chosen)]);
      update();
    }));
  });
  const setAll = (on) => {
    for (const [box, name] of boxes) {
      box.checked = on;
      if (on) hiddenSeries.delete(name);
      else hiddenSeries.add(name);
    }
    for (const select of on ? fields.querySelectorAll('select') : []) select.value = '';
    if (on) axisChoice.clear();
    update();
  };
  fields.append(make('button', { type: 'button', id: 'all', onclick: () => setAll(true) }, 'Show all'));
  if (boxes.length > 2) fields.append(make('button', { type: 'button', id: 'none', onclick: () => setAll(false) }, 'Hide all'));
  fields.append(make('p', { id: 'shown', role: 'status' }));
  place.append(fields);
  place.hidden = rows.length < 2;
}

function themeButton(figures) {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light')) === 'dark';
  const update = () => {
    byId('theme').textContent = isDark() ? 'Light' : 'Dark';
    byId('theme').setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`);
    for (const figure of figures) if (figure.some) figure.draw(figure.some);
  };
  byId('theme').addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    update();
  });
  dark.addEventListener('change', update);
  update();
}

/// A figure of half the width that has no other beside it takes the whole.
function fillRows(figures) {
  let begun = null;
  for (const { chart, element } of figures) {
    if (chart.wide) begun?.classList.add('wide');
    begun = chart.wide || begun ? null : element;
  }
  begun?.classList.add('wide');
}

/// Parts of the page that have nothing to show, and the links to them: where there are only curves over the request rate or
/// measurements, there is no table of runs, and no word of where their numbers are from.
function hideWhatIsEmpty(figures) {
  const has = { summary: rows.length > 0, worlds: worlds.length > 0, charts: figures.length > 0, sources: rows.length > 0 };
  document.querySelector('.skip').href = `#${Object.keys(has).find((id) => has[id]) ?? 'summary'}`;
  for (const [id, is] of Object.entries(has)) {
    byId(id).hidden = !is;
    if (!is) for (const link of document.querySelectorAll(`nav a[href="#${id}"]`)) link.remove();
  }
}

function start() {
  fillHead();
  fillWarnings();
  const ofRuns = charts.filter((chart) => chart.applies(rows)).map((chart) => new Figure(chart));
  fillRows(ofRuns);
  byId('charts').append(...ofRuns.map((figure) => figure.element));
  hideWhatIsEmpty(ofRuns);
  const figures = [...ofRuns, ...fillWorlds()];
  const table = new ResultTable(byId('table'));
  const update = () => {
    const some = rows.filter(isShown);
    byId('shown').textContent = some.length === rows.length ? `all ${rows.length} results` : `${some.length} of ${rows.length} results`;
    table.show(some);
    for (const figure of figures) figure.draw(some);
  };
  fillFilters(update);
  if (overSeeds(rows).length < rows.length)
    byId('seeds').append(makeCheck('each-seed', 'each seed in a row of its own', false, (on) => {
      table.showSeeds(on);
      table.show(rows.filter(isShown));
    }));
  if (unique(rows.map((row) => textAt(row.result, 'scenario'))).length > 1) byId('best-scope').textContent = ', in each scenario';
  fillSources();
  update();
  themeButton(figures);
  let resized = 0;
  addEventListener('resize', () => {
    clearTimeout(resized);
    resized = setTimeout(() => figures.forEach((figure) => figure.resize()), 120);
  });
}

start();
