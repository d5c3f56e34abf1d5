"""The Pareto frontier of a page: what it marks and names, against an exhaustive check of which result dominates which."""
import copy
import json
import random

from headless_browser import check

# What the page calls a metric -> (of a result's file, its place; from the whole number that is drawn; 1 where less is better, else -1).
METRICS = {"budget": (("memory_bytes", "budget"), lambda n: n * 10**9, 1), "tpot": (("metrics", "tpot_s", "mean"), lambda n: n / 1000, 1),
           "throughput": (("metrics", "throughput_tokens_per_s"), float, -1),
           "accuracy": (("expected_accuracy_percent", "datasets", "one", "expected"), float, -1)}
MOST_NAMES = 6  # all are named; of more, five


def drawn_numbers(seed):
    """60 results that trade one thing for another, some equal in two of them -> [{metric: whole number}]."""
    draw = random.Random(seed)
    noise = draw.choice((8, 60))  # much: few are on the frontier
    numbers = []
    for _ in range(60):
        budget = draw.randint(1, 24)
        tpot = 240 // budget + draw.randint(1, noise)
        numbers.append({"budget": budget, "tpot": tpot, "throughput": 10 * budget + draw.randint(0, 25), "accuracy": 20 + tpot // 4 + draw.randint(0, 9)})
    return numbers


def undominated(numbers, x, y):
    """The pairs of numbers to which no other is as good or better in both: by their definition, each held against all."""
    pairs = {(METRICS[x][2] * of[x], METRICS[y][2] * of[y]) for of in numbers}
    front = [pair for pair in pairs if not any(other != pair and other[0] <= pair[0] and other[1] <= pair[1] for other in pairs)]
    return [(METRICS[x][2] * a, METRICS[y][2] * b) for a, b in sorted(front)]  # the best x first


def put(result, keys, value):
    for key in keys[:-1]:
        if not isinstance(result.get(key), dict):
            result[key] = {}
        result = result[key]
    result[keys[-1]] = value


def results_of(result, numbers):
    """Copies of a result of the program with these numbers, each as a system of its own."""
    results = []
    for i, of in enumerate(numbers):
        results.append(copy.deepcopy(result) | {"system": f"p{i}"})
        for key, (place, scaled, _) in METRICS.items():
            put(results[-1], place, scaled(of[key]))
    return results


def numbers_of(results):
    """drawn_numbers(), from the file that the page was made of, by system."""
    numbers = {}
    for result in results:
        of = numbers[result["system"]] = {}
        for key, (place, scaled, _) in METRICS.items():
            value = result
            for word in place:
                value = value[word]
            of[key] = round(value / scaled(1))
    return numbers


def frontier_results(result):
    """{name of the page: its results}: frontiers of TPOT against the budget of 6 points, 7 and 10 or more."""
    pages = {}
    for name, sizes in (("frontier-6", (6,)), ("frontier-7", (7,)), ("frontier-many", range(10, 61))):
        numbers = next(n for n in map(drawn_numbers, range(10_000)) if len(undominated(n, "budget", "tpot")) in sizes)
        pages[name] = results_of(result, numbers)
    return pages


def choose(browser, field, value):
    browser.js("""(async (field, value) => { field.value = value; field.dispatchEvent(new Event('change', { bubbles: true }));
      return new Promise((drawn) => setTimeout(drawn)); })(arguments[0], arguments[1])""", browser.one(f"#pareto-{field}"), value)


def marked(browser):
    """The systems that the chart's numbers mark as on the frontier."""
    return browser.js("""(async () => { const details = document.querySelector('#chart-pareto details');
      details.open = false; await new Promise((closed) => setTimeout(closed, 30));
      details.open = true; await new Promise((opened) => setTimeout(opened, 30));
      return [...details.querySelectorAll('tbody tr')].filter((row) => row.lastChild.textContent === 'yes').map((row) => row.firstChild.textContent); })()""")


def check_frontier(browser, numbers, x, y, where):
    wanted = undominated(numbers.values(), x, y)
    pair_of = {name: (of[x], of[y]) for name, of in numbers.items()}
    names = marked(browser)
    check(sorted(pair_of[name] for name in names) == sorted(wanted), f"{where}: {names} are on the frontier, not {wanted}")
    said = browser.one("#chart-pareto > .note").text
    named, _, more = said.removeprefix("On the Pareto frontier: ").removesuffix(".").partition(" and ")
    count = len(wanted) if len(wanted) <= MOST_NAMES else MOST_NAMES - 1
    check([pair_of.get(name) for name in named.split(", ")] == wanted[:count], f"{where}: {said!r} names other than {wanted[:count]}")
    check(more == (f"{len(wanted) - count} more" if len(wanted) > count else ""), f"{where}: of {len(wanted)} it says {said!r}")


def check_frontiers(browser, pages, files):
    """Frontiers of few and many points, where less is better and where more is."""
    for page in ("frontier-6", "frontier-7", "frontier-many"):
        browser.open(pages[page])
        numbers = numbers_of(json.loads(files[page][0].read_text()))
        for x in ("budget", "accuracy"):
            for y in ("tpot", "throughput"):
                choose(browser, "x", x)
                choose(browser, "y", y)
                check_frontier(browser, numbers, x, y, f"{page}: {y} against {x}")
        browser.check_log(page)
