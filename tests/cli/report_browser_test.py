#!/usr/bin/env python3
"""The pages of `moelab report` in headless Chromium: every chart draws, whatever is chosen; filters, sorting, colours,
keyboard and narrow screens work; nothing is logged, no text of a result becomes HTML, and axe-core finds no serious fault of
accessibility.

usage: report_browser_test.py MOELAB SCREENSHOT_FOLDER PYTHON     PYTHON: one that has axe-core-python
Exit status 77: skipped, there is no browser to run it in, or all but axe-core's part was run and passed.
"""
import json
import pathlib
import re
import shutil
import sys
import tempfile

from headless_browser import AXE, SERIOUS, SKIPPED, Browser, By, axe_script, check, run
from report_frontier import check_frontiers, frontier_results
from report_world import check_hostile_world, check_world, hostile_world, world_result
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SHORT = ["--set", "workload.requests=1", "--set", "workload.prompt_tokens=6", "--set", "workload.output_tokens=5"]
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


def make_results(moelab, folder):
    """Short runs of all kinds of systems -> {name of the page: its result files}."""
    sweep = []
    for budget in (12, 20):
        for seed in (1, 2):
            sweep.append(folder / f"sweep-{budget}-{seed}.json")
            systems = [word for name in ("zipmoe", "zipmoe-lru", "zipmoe-belady") for word in ("--system", name)]
            run(moelab, "run", "zipmoe-orin", *SHORT, *systems, "--set", f"budget={budget} GB", "--set", f"seed={seed}",
                "--out", sweep[-1])
    pages = {"sweep": sweep}
    for name, scenario, settings in (
            ("zipmoe", "zipmoe-orin", SHORT), ("smoe", "smoe-deepseek-3080ti", SHORT),
            ("fluxmoe", "fluxmoe-qwen3-next", ["--set", "workload.requests=8", "--set", "workload.output_tokens=12"]),
            ("prism", "prism-deepseek-bigbench", ["--executor", "fast", "--set", "workload.servers=["
             "{server: server1, tasks: {abstract-narrative: 1}, requests: 4, arrivals_per_s: 1},"
             "{server: server2, tasks: {arithmetic: 1}, requests: 4, arrivals_per_s: 1}]"])):
        pages[name] = [folder / f"{name}.json"]
        run(moelab, "run", scenario, *settings, "--out", pages[name][0])
    make_store(moelab, folder)
    pages["panels"] = [folder / "panels.db"]
    pages["all"] = [pages[name][0] for name in ("zipmoe", "smoe", "fluxmoe", "prism")]
    pages["load"] = [folder / "load.json"]
    run(moelab, "load", "smoe-deepseek-3080ti", "--system", "smoe-base", "--system", "llama-cpp", "--rates", "0.5,2,8", "--requests", "30",
        "--seeds", "2", "--set", "workload.output_tokens=4", "--set", "workload.prompt_tokens=8", "--slo", "ttft p90 < 4 s, tpot p95 < 500 ms",
        "--out", pages["load"][0], "--records", folder / "requests.jsonl")
    pages["load"].append(folder / "requests.jsonl")
    pages["requests"] = [pages["load"][1]]
    pages["hostile-load"] = [folder / "hostile-load.json"]
    pages["hostile-load"][0].write_text(json.dumps(hostile_load(json.loads(pages["load"][0].read_text()))))
    pages["hostile-load"].append(folder / "hostile.jsonl")
    pages["hostile-load"][1].write_text("".join(json.dumps(q) + "\n" for q in hostile_requests()))
    pages["world"] = [folder / "world.json"]
    pages["world"][0].write_text(json.dumps(world_result()))
    pages["hostile-world"] = [pages["world"][0], folder / "hostile-world.json", pages["zipmoe"][0]]
    pages["hostile-world"][1].write_text(json.dumps(hostile_world(HOSTILE)))
    pages["hostile"] = [folder / "hostile.json"]
    pages["hostile"][0].write_text(json.dumps(hostile_results(json.loads(pages["zipmoe"][0].read_text()))))
    for name, results in frontier_results(json.loads(pages["zipmoe"][0].read_text())[0]).items():
        pages[name] = [folder / f"{name}.json"]
        pages[name][0].write_text(json.dumps(results))
    return pages


def make_store(moelab, folder):
    """A sweep over two keys, with two systems and two seeds, its keys' values long and alike at both ends."""
    (folder / "panels.yaml").write_text("""name: panels
scenario: zipmoe-orin
systems: [zipmoe-lru, zipmoe]
set: {workload.requests: 1, workload.prompt_tokens: 6, workload.output_tokens: 5}
axes:
  budget: [12 GB, 20 GB, 28 GB]
  workload.batch: [1, 2, 4]
repeats: 2
""")
    run(moelab, "sweep", folder / "panels.yaml", "--db", folder / "panels.db")


def hostile_results(results):
    """Results whose texts are markup, and where numbers and lists should be, something else."""
    for i, result in enumerate(results[:3]):
        result.update(scenario=HOSTILE + str(i), system=HOSTILE, question=HOSTILE, model=HOSTILE, device=HOSTILE, version=HOSTILE)
        result["warnings"] = [HOSTILE, 3, None]
        result["provenance"] = [HOSTILE, "device x: assumed (" + HOSTILE + ")", {}]
        result["stall_s"] = result["decode_stall_s"] = {HOSTILE: 1.0, "ssd_read": "2", "__proto__": 3}
    results[0]["metrics"] = {"tpot_s": None, "ttft_s": HOSTILE}
    results[1].update(layers={"decode_stall_s": [HOSTILE, None, 1], "decode_hits": {"F": 3}}, series=[None, 3, {"time_s": "x"}],
                      cluster={"servers": [None, {"name": HOSTILE, "end_to_end_s": 2, "series": {"bucket_s": "x"}}]},
                      memory_bytes=[1], expected_accuracy_percent={"datasets": None}, hits=7)
    return results[:3]


def hostile_load(load):
    """Texts that are markup; a latency that is nothing, a rate alone, a capacity of 0, all as large as a file may say."""
    load.update(scenario=HOSTILE, question=HOSTILE, model=HOSTILE, device=HOSTILE, version=HOSTILE, arrivals=HOSTILE)
    load["level"].update(text=HOSTILE, share=0.99)
    load["level"]["clauses"].append({"latency": "__proto__", "quantile": 0.123456789, "limit_s": 1e12})
    load["systems"] = [{**system, "system": HOSTILE, "best_rate_per_s": 0} for system in load["systems"]]
    points = load["systems"][0]["points"]
    points[0]["verdict"] = HOSTILE
    points[0]["seeds"][0]["ttft_s"] = dict.fromkeys(("mean", "p50", "p90", "p95", "p99"))
    points[1].update(rate_per_s=1e12)
    points[1]["seeds"][0]["tpot_s"]["p95"] = 1e12
    points[2]["seeds"][0] = {"seed": 1, "refusal": HOSTILE}
    del load["systems"][1]["points"][1:]
    return load


def hostile_requests():
    """Texts that are markup, numbers as large as a file may say, times that run backwards, rates of nothing, requests that never came."""
    q = {"system": HOSTILE, "request": 0, "arrival_s": 0, "started_s": 0, "first_token_s": 1, "end_s": 2, "prompt_tokens": 0, "output_tokens": 2}
    return [{**q, "class": HOSTILE, "rate_per_s": 0}, {**q, "system": "__proto__", "first_token_s": 1e12, "output_tokens": 1e12},
            {**q, "rate_per_s": 1e12, "first_token_s": None, "end_s": None}, {**q, "arrival_s": 1e12, "first_token_s": 0, "end_s": 0, "class": None}]


# Of a figure: drawn shapes that have a size, axes and legends aside.
MARKS = """((figure) => [...figure.querySelectorAll('.mark-rect path, .mark-symbol path, .mark-line path')]
  .filter((p) => !p.closest('.role-legend, .role-axis') && (p.getAttribute('d') ?? '').length > 8).length)"""


def marks(browser, figure):
    return browser.js(MARKS + "(arguments[0])", figure)


def after_each_choice(browser, figure, field):
    """[value, whether the figure says that it is empty, marks] of each option, chosen in turn; the first choice is put back."""
    return browser.js("""(async (figure, field) => {
      const first = field.value;
      const choose = (value) => {  // and wait: charts are drawn once a click has been dealt with
        field.value = value;
        field.dispatchEvent(new Event('change', { bubbles: true }));
        return new Promise((drawn) => setTimeout(drawn));
      };
      const shown = [];
      for (const { value } of field.options) {
        await choose(value);
        shown.push([value, figure.querySelector('.empty') !== null, %s(figure)]);
      }
      await choose(first);
      return shown;
    })(arguments[0], arguments[1])""" % MARKS, figure, field)


def check_charts(browser, name, expected):
    ids = [figure.get_attribute("id").removeprefix("chart-") for figure in browser.all("figure")]
    check(ids == expected, f"{name}: charts {ids}, not {expected}")
    for chart in ids:
        figure = browser.one(f"#chart-{chart}")
        check(marks(browser, figure) > 0, f"{name}: chart {chart} draws nothing")
        check(browser.js("(arguments[0].querySelector('.drawing [role=img]')?.getAttribute('aria-label') ?? '').length > 20", figure),
              f"{name}: chart {chart} has no description")
        for field in figure.find_elements(By.TAG_NAME, "select"):
            for value, empty, drawn in after_each_choice(browser, figure, field):
                check(empty != (drawn > 0), f"{name}: chart {chart} with {value!r}")
        figure.find_element(By.CSS_SELECTOR, "summary").click()
        WebDriverWait(browser.driver, 5).until(lambda _: figure.find_elements(By.CSS_SELECTOR, "details tbody tr"),
                                               f"{name}: chart {chart} has no numbers")
        figure.find_element(By.CSS_SELECTOR, "summary").click()
    browser.check_log(name)


def shown_systems(browser):
    return browser.js("[...document.querySelectorAll('#table tbody th')].map((cell) => cell.textContent)")


def column(browser, key):
    """A column's numbers, from the top, None where there is none."""
    return browser.js("(() => { const at = [...document.querySelectorAll('#table thead button')]"
                      ".findIndex((button) => button.dataset.key === arguments[0]);"
                      "return [...document.querySelectorAll('#table tbody tr')].map((row) => {"
                      "const value = parseFloat(row.children[at].textContent); return Number.isNaN(value) ? null : value; }); })()", key)


def check_seeds(browser):
    """A row's mean and range are those of the seeds' own rows: looked up in the page's data, in ms."""
    expected = browser.js("""JSON.parse(document.getElementById('data').textContent).points
      .filter((p) => p.series === 'zipmoe' && p.axes[0][1] === '12 GB').map((p) => 1e3 * p.result.metrics.tpot_s.mean)""")
    text = browser.js("""(() => { const at = [...document.querySelectorAll('#table thead button')].findIndex((b) => b.dataset.key === 'tpot');
      return [...document.querySelectorAll('#table tbody tr')].filter((row) => row.textContent.startsWith('zipmoe2' + '12 GB'))  // system, seeds, budget
        .map((row) => row.children[at].textContent); })()""")
    check(len(expected) == 2 and len(text) == 1, f"two seeds of zipmoe at 12 GB are one row: {text}")
    shown = [float(number) for number in re.findall(r"[0-9.]+", text[0])]
    wanted = [sum(expected) / 2, min(expected), max(expected)]
    check(len(shown) == 3 and all(abs(a - b) <= 0.5 for a, b in zip(shown, wanted)), f"{text[0]} is {wanted}")  # in whole ms
    browser.one("#each-seed").click()
    check(len(shown_systems(browser)) == 12, "each seed in a row of its own, when asked for")
    browser.one("#each-seed").click()


def check_panels(browser, page):
    """Three batches over three budgets: small multiples of one range each; a frontier with its name in the legend."""
    browser.open(page)
    figure = browser.one("#chart-compare")
    check([h.text for h in figure.find_elements(By.TAG_NAME, "h4")] == [f"workload.batch: {n}" for n in (1, 2, 4)], "a panel a batch")
    check(marks(browser, figure) == 3 * (2 + 6), "in each two lines of three points")
    ticks = browser.js("""[...document.querySelectorAll('#chart-compare svg')].map((svg) =>
      [...svg.querySelectorAll('.role-axis')].map((axis) => [...axis.querySelectorAll('.role-axis-label text')].map((t) => t.textContent)))""")
    check(len(ticks) == 3 and ticks[0] == ticks[1] == ticks[2], f"panels share their axes: {ticks}")
    titles = browser.js("[...document.querySelectorAll('#chart-compare .role-axis-title')].map((t) => t.textContent)")
    check(titles[:2] == ["budget, GB", "TPOT, ms"], f"axes have units: {titles}")
    pareto = browser.one("#chart-pareto")
    check(pareto.find_element(By.TAG_NAME, "h3").text == "Pareto frontier", "by its name")
    check("Pareto frontier" in pareto.find_element(By.CSS_SELECTOR, ".legend").text, "and in the legend")
    check_areas(browser)
    browser.open(page, width=390)
    for field in ("over", "at-0", "at-1"):  # each result by itself
        browser.js("((field) => { field.value = ''; field.dispatchEvent(new Event('change')); })(arguments[0])", browser.one(f"#time-{field}"))
    labels = browser.js("""[...document.querySelectorAll('#chart-time .role-axis-label > *')].map((label) =>
      (label.querySelectorAll('tspan').length > 0 ? [...label.querySelectorAll('tspan')].map((t) => t.textContent).join(' ') : label.textContent))""")
    for budget in ("12 GB", "20 GB", "28 GB"):
        check(any(budget in label for label in labels), f"{budget} stands in full on a phone: {labels}")
    check(len(set(labels)) >= 18, f"18 names that differ on a phone: {labels}")


def check_areas(browser):
    """18 results and more: areas over the budget, a panel a system and batch; what they say is what the data say."""
    for chart, kind in (("time", "area"), ("states", "area"), ("layers", "rect")):
        panels = browser.all(f"#chart-{chart} h4")
        check([h.text for h in panels] == [f"{system} · {batch}" for system in ("zipmoe-lru", "zipmoe") for batch in (1, 2, 4)],
              f"{chart}: a panel a system and batch: {[h.text for h in panels]}")
        check(len(browser.all(f"#chart-{chart} .mark-{kind} path")) > 6, f"{chart} draws in them")
    check(not browser.one("#time-at-0").is_displayed() and browser.one("#time-at-1").is_displayed(), "a value of other keys can be chosen")
    # The mean over two seeds of the SSD's share of decoding time at 12 GB, by hand from the data.
    wanted = browser.js("""(() => { const of = JSON.parse(document.getElementById('data').textContent).points
      .filter((p) => p.series === 'zipmoe' && p.axes[0][1] === '12 GB' && p.axes[1][1] === '2').map((p) => p.result.decode_stall_s);
      const sum = (key) => of.reduce((all, one) => all + (key ? one[key] ?? 0 : Object.values(one).reduce((a, b) => a + b, 0)), 0);
      return 100 * sum('ssd_read') / sum(); })()""")
    said = browser.js("""[...document.querySelectorAll('#chart-time .mark-rect path')].map((p) => p.getAttribute('aria-label') ?? '')
      .filter((text) => text.startsWith(': zipmoe · 2 at 12 GB; SSD:')).map((text) => parseFloat(text.split('SSD: ')[1]))""")
    check(len(said) == 1 and abs(said[0] - wanted) < 0.06, f"SSD's share is {wanted}: {said}")
    Select(browser.one("#time-at-1")).select_by_visible_text("4")
    check([h.text for h in browser.all("#chart-time h4")] == ["zipmoe-lru", "zipmoe"], "at one batch, a panel a system")
    check("At workload.batch 4." in browser.one("#chart-time > .note").text, "and it says which")


def check_oracle(browser):
    """On the sweep: no system is faster than zipmoe-belady, which is neither best nor on the frontier."""
    oracle = browser.js("""JSON.parse(document.getElementById('data').textContent).points.filter((p) => p.oracle).map((p) => p.series)""")
    check(set(oracle) == {"zipmoe-belady"} and len(oracle) == 4, f"oracles: {oracle}")
    times = list(zip(column(browser, "tpot"), shown_systems(browser)))
    check(min(times)[0] == min(time for time, name in times if name == "zipmoe-belady (oracle)"), f"none is faster: {times}")
    best = browser.js("[...document.querySelectorAll('#table td.best')].map((cell) => cell.closest('tr').querySelector('th').textContent)")
    check(best and "zipmoe-belady (oracle)" not in best, f"the best are rivals: {best}")
    front = browser.one("#chart-pareto > .note").text
    check(front.startswith("On the Pareto frontier: zipmoe") and "belady" not in front, front)
    check("zipmoe-belady (oracle)" in browser.one("#chart-pareto .legend").text, "the legend says what it is")


def check_filters(browser):
    """On the sweep: 3 systems, 2 budgets, 2 seeds."""
    check(len(shown_systems(browser)) == 6, "six rows: means over the seeds")
    check_seeds(browser)
    check_oracle(browser)
    check(marks(browser, browser.one("#chart-compare")) == 3 + 6, "three lines of two points each")
    check(len(browser.all("#chart-compare .mark-area path")) == 3, "with a band each, from the least seed to the most")
    browser.one("#filters input").click()
    check(shown_systems(browser).count("zipmoe") == 0 and len(shown_systems(browser)) == 4, "zipmoe is filtered out")
    check(browser.one("#shown").text == "8 of 12 results", "what is shown is said")
    check(marks(browser, browser.one("#chart-compare")) == 2 + 4, "and its line has gone")
    budget = Select(browser.one("#axis-0"))
    check([option.text for option in budget.options] == ["all", "12 GB", "20 GB"], "budgets in the order of their numbers")
    budget.select_by_visible_text("20 GB")
    check(len(shown_systems(browser)) == 2, "and 20 GB only")
    browser.one("#none").click()
    check(len(shown_systems(browser)) == 0 and len(browser.all("figure .empty")) == len(browser.all("figure")), "none is shown")
    browser.one("#all").click()
    check(len(shown_systems(browser)) == 6 and len(browser.all("figure .empty")) == 0, "all are shown again")
    browser.check_log("filters")


def check_sorting(browser):
    before = column(browser, "tpot")
    for direction in ("ascending", "descending"):
        browser.one("#table button[data-key=tpot]").send_keys(Keys.ENTER)  # as the keyboard does
        check(browser.one("#table th[aria-sort]").get_attribute("aria-sort") == direction, f"sorted {direction}")
        check(column(browser, "tpot") == sorted(before, reverse=direction == "descending"), f"times {direction}")
    browser.one("#table button[data-key=throughput]").click()
    check(browser.one("#table th[aria-sort]").get_attribute("aria-sort") == "descending", "more is better comes first")
    best = browser.js("[...document.querySelectorAll('#table tbody td.best')].map((cell) => cell.textContent)")
    check(all(text.endswith(" (best)") for text in best), f"the best are marked for those who listen: {best}")
    rivals = [time for time, name in zip(column(browser, "tpot"), shown_systems(browser)) if "oracle" not in name]
    check(min(rivals) in [float(text.split()[0]) for text in best], f"the best time of the rivals is marked: {best}")


def luminance(browser):
    colour = browser.js("getComputedStyle(document.body).backgroundColor")
    return sum(float(part) for part in colour[colour.index("(") + 1:-1].split(",")[:3]) / 3


def check_colours(browser, page):
    label = "getComputedStyle(document.querySelector('#chart-compare .role-axis-label text')).fill"
    browser.open(page, dark=True)
    check(luminance(browser) < 50, "dark where the system is")
    dark = browser.js(label)
    browser.one("#theme").click()
    check(luminance(browser) > 200, "light on demand")
    check(browser.js(label) != dark, "and so are the charts")
    browser.open(page)
    check(luminance(browser) > 200, "light where the system is")
    browser.check_log("colours")


def check_keyboard(browser, page):
    """Tab alone reaches all that can be worked with, in the order of the document, and shows where it is."""
    browser.open(page)
    wanted = browser.js("[...document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]')]"
                        ".filter((e) => e.checkVisibility()).map((e, i) => { e.dataset.stop = i; return String(i); })")
    reached = []
    for _ in range(len(wanted) + 2):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        stop, outline = browser.js("[document.activeElement.dataset.stop, getComputedStyle(document.activeElement).outlineStyle]")
        if stop is None or stop in reached:
            break
        check(outline != "none", f"stop {stop} shows that it has the focus")
        reached.append(stop)
    check(reached == wanted, f"Tab reaches {reached}, not {wanted}")


def check_hostile(browser, page):
    browser.open(page)
    check(browser.js("window.hacked === undefined"), "no text of a result runs")
    check(browser.js("document.querySelectorAll('img').length") == 0, "nor becomes an element")
    check(HOSTILE in browser.one("#title").text, "it is shown as it is")
    check(browser.one("#warnings").text.startswith(HOSTILE), "so are warnings")
    check(len(shown_systems(browser)) == 3, "with all results")
    browser.check_log("hostile")


def check_load(browser, page, file, requests):
    """The panels share their rates; what is drawn and said is what the file says, by hand."""
    load = json.loads(file.read_text())
    browser.open(page)
    figure = browser.one("#chart-load")
    titles = [h.text for h in figure.find_elements(By.TAG_NAME, "h4")]
    check(titles == ["TTFT p90, p50 to p99", "TTFT p90", "TPOT p90, p50 to p99", "TPOT p95", "Served", "Throughput", "Within the goals"], f"panels: {titles}")
    axes = browser.js("""[...document.querySelectorAll('#chart-load svg')].map((svg) => [...svg.querySelectorAll('.role-axis')]
      .map((axis) => [...axis.querySelectorAll('.role-axis-label text')].filter((t) => t.style.opacity !== '0').map((t) => t.textContent))
      .filter((labels) => labels.length > 0))""")
    check(all((of[0][0], of[0][-1]) == ("0.5", "8") for of in axes), f"one axis of rates: {axes}")
    check_bands(browser, load)
    check(axes[0][1] == axes[1][1] and axes[2][1] == axes[3][1], f"one scale a latency: {axes}")
    names = browser.js("[...document.querySelectorAll('#chart-load .role-axis-title')].map((t) => t.textContent)")
    check("asked for, requests/s" in names and "TTFT p90, s" in names and "Within the goals, % of requests" in names, f"axes have units: {names}")
    for system in load["systems"]:
        rate = "none of these rates" if system["best_rate_per_s"] is None else f"{system['best_rate_per_s']:g} requests/s"
        said = f"{system['system']} serves {rate} within {load['level']['text']}."
        check(said in browser.one("#chart-load > .note").text, f"{said!r} is not in {browser.one('#chart-load > .note').text!r}")
        for point in system["points"]:
            wanted = sum(seed["ttft_s"]["p90"] for seed in point["seeds"]) / len(point["seeds"])
            found = browser.js("""[...document.querySelectorAll('#chart-load .mark-symbol path')].map((p) => p.getAttribute('aria-label') ?? '')
              .filter((text) => text.startsWith(arguments[0])).map((text) => parseFloat(text.split('TTFT p90: ')[1]))""",
                               f": {system['system']}; asked for: {point['rate_per_s']:g} requests/s; TTFT p90: ")
            check(len(found) == 1 and abs(found[0] - wanted) <= 0.006 * wanted, f"TTFT p90 is {wanted}: {found}")
    check_load_rules(browser, load)
    check_load_tradeoff(browser, load)
    check_goodput(browser, load)
    check_requests(browser, requests)
    check(not browser.one("#summary").is_displayed() and not browser.all("nav a[href='#summary']"), "no empty table of runs")


def mean_over_seeds(point, *path):
    def at(seed):
        for key in path:
            seed = seed[key]
        return seed
    return sum(at(seed) for seed in point["seeds"]) / len(point["seeds"])


def near(found, wanted):
    """As shown, with three digits."""
    return abs(found - wanted) <= 0.006 * abs(wanted)


def tips(browser, chart, begin):
    """What marks of a chart say whose text begins so: {name: value with its unit}."""
    texts = browser.js("""[...document.querySelectorAll(arguments[0])].map((p) => p.getAttribute('aria-label') ?? '')
      .filter((text) => text.startsWith(arguments[1]))""", f"#chart-{chart} .mark-symbol path, #chart-{chart} .mark-rect path", begin)
    return [dict(part.split(": ", 1) for part in text.split("; ")[1:]) for text in texts]


def check_bands(browser, load):
    """Each latency's line is its p90, in a band from p50 to p99, means over the seeds."""
    for system in load["systems"]:
        for point in system["points"]:
            for name, key in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
                said = [tip for tip in tips(browser, "load", f": {system['system']}; asked for: {point['rate_per_s']:g} requests/s; {name} p90, p50 to p99: ")]
                check(len(said) == 1, f"one mark: {said}")
                for percentile, shown in (("p90", f"{name} p90, p50 to p99"), ("p50", "p50"), ("p99", "p99")):
                    wanted = mean_over_seeds(point, key, percentile)
                    check(near(float(said[0].get(shown, said[0][f"{name} p90, p50 to p99"]).split()[0]), wanted), f"{key} {percentile} is {wanted}: {said}")


def check_load_tradeoff(browser, load):
    """Each point has its throughput and latency; its line runs by the rates."""
    for system in load["systems"]:
        said = tips(browser, "load-tradeoff", f": {system['system']};")
        check([tip["asked for"] for tip in said] == [f"{point['rate_per_s']:g} requests/s" for point in system["points"]], f"a mark a rate: {said}")
        for tip, point in zip(said, system["points"]):
            check(near(float(tip["throughput"].split()[0]), mean_over_seeds(point, "throughput_tokens_per_s")), f"throughput: {tip}")
            check(near(float(tip["TPOT p99"].split()[0]), mean_over_seeds(point, "tpot_s", "p99")), f"TPOT p99: {tip}")
            check(tip["verdict"] == point["verdict"], f"verdict: {tip}")


def check_goodput(browser, load):
    """A bar for each system and rate; those that do not last are pale, and none of them is called the best."""
    note = browser.one("#chart-load-goodput > .note").text
    for system in load["systems"]:
        said = tips(browser, "load-goodput", f": {system['system']};")
        check(len(said) == len(system["points"]), f"a bar a rate: {said}")
        for tip, point in zip(said, system["points"]):
            check(near(float(tip["goodput"].split()[0]), mean_over_seeds(point, "goodput_requests_per_s")), f"goodput: {tip}")
        steady = [point for point in system["points"] if point["verdict"] == "steady"]
        check(0 < len(steady) < len(system["points"]), f"{system['system']} is saturated at some rates")
        best = max(steady, key=lambda point: mean_over_seeds(point, "goodput_requests_per_s"))
        check(re.search(re.escape(f"{system['system']}: ") + r"[0-9.]+" + re.escape(f" requests/s within the goals, of {best['rate_per_s']:g} asked for."), note), note)
    pale = browser.js("""[...document.querySelectorAll('#chart-load-goodput .mark-rect path')].filter((p) => p.getAttribute('fill-opacity') === '0.35').length""")
    check(pale == sum(point["verdict"] != "steady" for system in load["systems"] for point in system["points"]), f"{pale} pale bars")


def check_requests(browser, file):
    """At the rate that is chosen a mark for each request, with the latency that its record has; and at all rates."""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    rate = float(Select(browser.one("#requests-rate")).first_selected_option.get_attribute("value"))
    for system in sorted({q["system"] for q in records}):
        of = [q for q in records if q["system"] == system and q["rate_per_s"] == rate]
        said = tips(browser, "requests", f": {system} · request ")
        check(len(said) == len(of), f"{len(said)} marks of {len(of)} requests")
        ttft = sorted(q["first_token_s"] - q["arrival_s"] for q in of)
        middle = (ttft[(len(ttft) - 1) // 2] + ttft[len(ttft) // 2]) / 2
        note = browser.one("#chart-requests > .note").text
        found = re.search(re.escape(f"{system}: TTFT p50 ") + r"([0-9.]+) s", note)
        check(note.startswith(f"At {rate:g} requests/s, all seeds together: ") and near(float(found[1]), middle), f"{middle}: {note}")
        for tip, q in zip(said, of):
            check(near(float(tip["TTFT"].split()[0]), q["first_token_s"] - q["arrival_s"]), f"TTFT of {q}: {tip}")
    field = browser.one("#requests-rate")
    check(after_each_choice(browser, browser.one("#chart-requests"), field)[0][2] >= len(records), "all rates have all requests")


def check_load_rules(browser, load):
    """An upright line in each panel for each system that has a capacity, a level one where there is a goal."""
    capacities = sum(system["best_rate_per_s"] is not None for system in load["systems"])
    lines = browser.js("""[...document.querySelectorAll('#chart-load svg')].map((svg) => [...svg.querySelectorAll('.mark-rule line')]
      .filter((line) => line.getAttribute('stroke-dasharray') === '5,3').map((line) => [line.getAttribute('x2'), line.getAttribute('y2')].map(Number)))""")
    upright, level = ([sum(is_there(x, y) for x, y in of) for of in lines] for is_there in (lambda x, y: x == 0 and y > 0, lambda x, y: y == 0 and x > 0))
    check(capacities > 0 and upright == [capacities] * 7, f"what systems can promise: {lines}")
    check(level == [0, 1, 0, 1, 0, 0, 0], f"goals of TTFT p90 and TPOT p95: {lines}")


def check_hostile_load(browser, page):
    browser.open(page)
    check(browser.js("window.hacked === undefined && document.querySelectorAll('img').length === 0"), "no text of a load becomes HTML")
    check(HOSTILE in browser.one("#chart-load > .note").text and browser.all("#chart-load svg"), "it is shown as it is, and what can be drawn is")
    check(HOSTILE in browser.one("#chart-requests .legend").text and browser.all("#chart-requests svg"), "so it is of requests")
    browser.check_log("hostile load")


def check_accessible(browser, name, axe):
    if not axe:
        return
    browser.driver.execute_script(axe)
    faults = browser.js(AXE, SERIOUS)
    check(not faults, f"{name}: {faults}")


def check_phone(browser, name, page):
    """Nothing is wider than the screen, and a row's system has a figure beside it."""
    browser.open(page, width=360)
    if name not in ("load", "world"):  # whose pages have no results beside their curves
        kinds = browser.js("[...document.querySelectorAll('#table thead th')].slice(0, 2).map((th) => th.querySelector('.unit') !== null)")
        check(kinds[:1] == [False] and kinds[1:] == [True], f"{name}: a figure stands beside the system on a phone: {kinds}")
        box = browser.js("(() => { const [, th] = document.querySelectorAll('#table thead th'); const { left, right } = th.getBoundingClientRect(); return [left, right]; })()")
        check(0 <= box[0] and box[1] <= 360, f"{name}: and is within the screen: {box}")
        names = shown_systems(browser)
        check(len(set(names)) == len(names), f"{name}: rows are told apart by what they are called: {names}")
    check(browser.js("document.documentElement.scrollWidth") <= 360, f"{name}: wider than a phone")


def test(browser, pages, results, screenshots, axe):
    common = ["compare", "pareto", "states", "time", "layers"]
    expected = {"sweep": common, "panels": common, "zipmoe": common, "smoe": common,
                "fluxmoe": ["compare", "pareto", "time", "series", "layers"],
                "load": ["load", "load-tradeoff", "load-goodput", "requests"], "requests": ["requests"], "world": ["world"],
                "prism": ["compare", "pareto", "time", "servers", "local", "layers"],
                "all": ["compare", "pareto", "states", "time", "servers", "local", "series", "layers"]}
    for name, charts in expected.items():
        browser.open(pages[name])
        check_charts(browser, name, charts)
        if name in ("zipmoe", "smoe", "fluxmoe", "prism", "requests"):  # the pages "all" and "load" have what they have, and look no other
            continue
        browser.screenshot(screenshots / f"{name}.png")
        # Of other pages than the one with most kinds of charts each width once, the widest dark; accessibility at the narrowest and the widest.
        for width, dark in ((390, False), (768, False), (1440, False), (390, True), (1440, True)) if name == "all" else ((390, False), (768, False), (1440, True)):
            browser.open(pages[name], width, dark)
            check(browser.js("document.documentElement.scrollWidth") <= width, f"{name}: wider than {width} px")
            if name == "all" or width != 768:
                check_accessible(browser, f"{name} at {width} px", axe)
        browser.screenshot(screenshots / f"{name}-dark.png")
        check_phone(browser, name, pages[name])
        browser.screenshot(screenshots / f"{name}-phone.png")
        browser.check_log(name)
    browser.open(pages["sweep"])
    check_filters(browser)
    check_sorting(browser)
    check_keyboard(browser, pages["sweep"])
    check_colours(browser, pages["sweep"])
    check_panels(browser, pages["panels"])
    check_frontiers(browser, pages, results)
    check_hostile(browser, pages["hostile"])
    check_load(browser, pages["load"], *results["load"])
    check_hostile_load(browser, pages["hostile-load"])
    check_world(browser, pages["world"], results["world"][0])
    check_hostile_world(browser, pages["hostile-world"], HOSTILE)


def main():
    moelab, screenshots = sys.argv[1], pathlib.Path(sys.argv[2])
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("skipped: there is no Chromium (packages chromium and chromium-driver)")
        return SKIPPED
    screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pages = {}
        results = make_results(moelab, folder)
        for page, files in results.items():
            pages[page] = folder / f"{page}.html"
            run(moelab, "report", *files, "--out", pages[page])
        axe = axe_script(sys.argv[3])
        browser = Browser()
        try:
            test(browser, pages, results, screenshots, axe)
        except AssertionError:
            browser.screenshot(screenshots / "failed.png")
            raise
        finally:
            browser.driver.quit()
    print(f"all charts draw; screenshots: {screenshots}")
    if axe:
        return 0
    print("skipped: no accessibility was checked, for no Python with axe-core-python was given (tests/python/environment.sh packages)")
    return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
