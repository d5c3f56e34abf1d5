"""Published measurements beside predictions on a page: what is drawn and said of a file, against the file's own numbers."""
import json
import math
import random
import statistics

from headless_browser import check

TOLERANCE = 0.3
PANELS = {("decode", "tok/s"): ("Decode, tokens/s", "decode"), ("decode", "ms"): ("Decode, ms a token", "tpot_ms"),
          ("prefill", "tok/s"): ("Prefill, tokens/s", "prefill"), ("prefill", "ms"): ("Prefill, ms to the first token", "ttft_ms")}


def drawn_row(draw, number, phase, unit, place):
    measured = round(10 ** draw.uniform(0.5, 3.5), 2)
    off = lambda: round(measured * math.exp(draw.gauss(0, 0.35)), 3)
    return {"id": f"r{number}", "model": draw.choice(["qwen3-30b-a3b", "gpt-oss-20b"]), "weights": "gguf-q4_k_m", "machine": "rtx-4090-24gb",
            "gpus": draw.choice([1, 2]), "runtime": "llama.cpp-cuda", "metric": PANELS[phase, unit][1], "unit": unit,
            "source": "a repository on the web, its folder of benchmarks, a pull request of many words", "group": f"{place}, {phase}", "phase": phase,
            "measured": measured, "predicted": off(), "predicted_source_left_out": off(), "null_model": off(),
            "bound_by": "reading weights from the GPU's memory", "counted": True, "why_not": None}


def quantile(values, q):
    """The value at rank q (n - 1) of the sorted values, between two by a straight line."""
    rank = q * (len(values) - 1)
    low, high = sorted(values)[math.floor(rank)], sorted(values)[math.ceil(rank)]
    return low + (rank - math.floor(rank)) * (high - low)


def group_of(name, rows):
    def errors(key):
        return [abs(row[key] / row["measured"] - 1) for row in rows]
    ratios = [row["predicted_source_left_out"] / row["measured"] for row in rows]
    return {"name": name, "rows": len(rows), "median_error": statistics.median(errors("predicted")),
            "median_error_source_left_out": statistics.median(errors("predicted_source_left_out")),
            "nine_in_ten_factor_less_1": quantile([max(ratio, 1 / ratio) - 1 for ratio in ratios], 0.9),
            "median_error_null_model": statistics.median(errors("null_model")),
            "within_tolerance": sum(error <= TOLERANCE for error in errors("predicted")) / len(rows)}


def world_result():
    """As experiments/world/run.sh --out writes it, of drawn numbers: 42 rows counted, one predicted and not counted, one not understood."""
    draw = random.Random(27)
    rows = [drawn_row(draw, f"{phase[0]}{unit[0]}{i}", phase, unit, place) for phase, unit in PANELS for i in range(6 if unit == "ms" else 15)
            for place in [draw.choice(["CPU only", "experts on the CPU", "one GPU"])]]
    vague, unknown = drawn_row(draw, "vague", "decode", "tok/s", "one GPU"), drawn_row(draw, "unknown", "decode", "tok/s", "one GPU")
    vague.update(counted=False, why_not="grade C: what its source says is too vague to count")
    unknown.update(counted=False, why_not="no runtime 'lama.cpp'; the nearest is 'llama.cpp-cpu'", unit="W",
                   **dict.fromkeys(("group", "phase", "predicted", "predicted_source_left_out", "null_model", "bound_by")))
    groups = [group_of(name, [row for row in rows if row["group"] == name]) for name in sorted({row["group"] for row in rows})]
    groups += [group_of(f"all {phase}", [row for row in rows if row["phase"] == phase]) for phase in ("decode", "prefill")]
    return {"world_format": 1, "version": "1", "question": "How near are they?", "answer": "Of 44 published measurements 42 are predicted and counted.",
            "files": ["points.csv"], "tolerance": TOLERANCE, "groups": groups, "rows": [*rows, vague, unknown]}


def hostile_world(hostile):
    """Texts that are markup, names of JavaScript's own, the largest and smallest values that a file may hold."""
    world = world_result()
    world.update(answer=hostile, question=hostile, version=hostile, files=[hostile, ""])
    for row in world["rows"]:
        row.update({key: hostile for key in ("id", "model", "weights", "machine", "runtime", "metric", "source", "bound_by")})
        row.update(group=row["group"] and "__proto__", why_not=row["why_not"] and hostile)
    for group in world["groups"]:
        group.update(name=hostile, median_error=1e15)
    world["rows"][0].update(measured=1e15, predicted=1e-300)
    return world


def symbols(browser):
    """Of each panel: [text of a point, where it stands in pixels]."""
    return browser.js("""[...document.querySelectorAll('#chart-world svg')].map((svg) => [...svg.querySelectorAll('.mark-symbol path')].map((path) =>
      [path.getAttribute('aria-label'), ...path.getAttribute('transform').match(/-?[0-9]+[0-9.]*/g).slice(0, 2).map(Number)]))""")


def check_panels(browser, world):
    """Every predicted row is a point of its panel, whose place is that of its numbers on two logarithmic scales of one range."""
    titles = browser.js("[...document.querySelectorAll('#chart-world h4')].map((h) => h.textContent)")
    check(titles == [title for title, _ in PANELS.values()], f"panels: {titles}")
    axes = browser.js("[...document.querySelectorAll('#chart-world .role-axis-title')].map((t) => t.textContent).filter((text) => text !== '')")
    check(axes == [f"{what}, {unit}" for unit in ("tokens/s", "ms") * 2 for what in ("measured", "predicted")], f"axes have units: {axes}")
    areas = browser.js("""[...document.querySelectorAll('#chart-world svg')].map((svg) => ['.mark-area path', '.mark-line path'].map((kind) =>
      svg.querySelector(kind).getAttribute('d').match(/-?[0-9.]+/g).map(Number)))""")
    for (phase, unit), points, (band, line) in zip(PANELS, symbols(browser), areas):
        rows = [row for row in world["rows"] if (row["phase"], row["unit"]) == (phase, unit)]
        check(len(points) == len(rows), f"{phase}, {unit}: {len(points)} points of {len(rows)} rows")
        places = []
        for row in rows:
            found = [place for text, *place in points if text.startswith(f": {row['id']} · {row['model']};")]
            check(len(found) == 1, f"one point of {row['id']}: {found}")
            places.append((math.log(row["measured"]), math.log(row["predicted"]), *found[0]))
        low, high = min(places), max(places)
        across = (high[2] - low[2]) / (high[0] - low[0])  # pixels for a factor of e
        width, height = line[2], line[1]
        for x, y, left, top in places:
            check(abs(left - low[2] - across * (x - low[0])) < 0.5, f"{phase}, {unit}: measured values stand as their logarithms")
            # On one range the line from corner to corner is where both are equal.
            check(abs((height - top) / height - (left / width + across / width * (y - x))) < 0.005, f"{phase}, {unit}: so do predicted ones")
        check([line[0], line[3]] == [0, 0], f"{phase}, {unit}: the line is that from corner to corner: {line}")
        heights = sorted(height - y for x, y in zip(band[::2], band[1::2]) if x == 0)
        wanted = [across / width * height * math.log(1 + of) for of in (-TOLERANCE, TOLERANCE)]
        check(all(abs(a - b) < 0.5 for a, b in zip(heights, wanted)), f"{phase}, {unit}: the band is 30 % off at most: {heights}, not {wanted}")


def cells(browser, table):
    return browser.js("[...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))", table)


def check_tables(browser, world):
    shown = cells(browser, "#world0-groups")
    wanted = [[group["name"], str(group["rows"]), *(f"{100 * group[key]:.0f}" for key in ("median_error", "median_error_source_left_out",
              "nine_in_ten_factor_less_1", "median_error_null_model")), f"{100 * group['within_tolerance']:.1f}"] for group in world["groups"]]
    check(shown == wanted, f"errors by group: {shown}, not {wanted}")
    shown = {row[0]: row for row in cells(browser, "#world0-rows")}
    check(len(shown) == len(world["rows"]), "all rows are there")
    for row in world["rows"]:
        at = shown[row["id"]]
        if row["predicted"] is None:
            check(at[7:11] == ["–"] * 4, f"nothing is predicted: {at}")
        else:
            check(float(at[8]) == round(100 * (row["predicted"] / row["measured"] - 1)), f"the error of {row['id']}: {at}")
        check(at[12] == ("yes" if row["counted"] else f"no: {row['why_not']}"), f"whether {row['id']} is counted: {at}")
    browser.one("#world0-rows button[data-key=error]").click()
    errors = [abs(float(row[8])) for row in cells(browser, "#world0-rows") if row[8] != "–"]
    check(errors == sorted(errors) and cells(browser, "#world0-rows")[-1][0] == "runknown", f"sorted by how far off: {errors}")


def check_world(browser, page, file):
    world = json.loads(file.read_text())
    browser.open(page)
    check(browser.one("#worlds .answer").text == world["answer"], "the answer comes first")
    check(browser.one("#questions").text == world["question"], "under the question")
    check_panels(browser, world)
    check_tables(browser, world)
    legend = browser.one("#chart-world .legend").text.split("\n")
    check([name for name in legend if "CPU" in name or "GPU" in name] == ["CPU only", "experts on the CPU", "one GPU"], f"the legend: {legend}")
    for title, part in ((title, [row for row in world["rows"] if row["counted"] and (row["phase"], row["unit"]) == of]) for of, (title, _) in PANELS.items()):
        near = sum(abs(row["predicted"] / row["measured"] - 1) <= TOLERANCE for row in part)
        said = f"{title}: {near} of {len(part)} counted points are within 30 %."
        check(said in browser.one("#chart-world > .note").text, f"{said!r} is not in {browser.one('#chart-world > .note').text!r}")
    for part in ("summary", "charts", "sources"):
        check(not browser.one(f"#{part}").is_displayed() and not browser.all(f"a[href='#{part}']"), f"no empty part {part}")
    browser.check_log("world")


def check_hostile_world(browser, page, hostile):
    """Two files and a run on one page, one of the files hostile."""
    browser.open(page)
    check(browser.js("window.hacked === undefined && document.querySelectorAll('img').length === 0"), "no text of a measurement becomes HTML")
    check([p.text for p in browser.all("#worlds .answer")][1] == hostile, "it is shown as it is")
    check(len(browser.all("#chart-world-1 .mark-symbol path")) == 43 and browser.one("#summary").is_displayed(), "all points are drawn, beside the run")
    browser.check_log("hostile world")
