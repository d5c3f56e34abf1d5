"""Tables and pictures of what commands print: for each its rows, the columns that a page shows, and what is drawn."""

import html
from typing import Any, Callable, NamedTuple, Optional, Tuple

from . import _native


class View(NamedTuple):
    rows: Callable[[Any], list]  # of the command's JSON: a mapping a row
    shown: Tuple[tuple, ...] = ()  # (heading, column, factor) of the page's table; none: all columns
    by: Tuple[str, ...] = ()  # what a bar or a line is of: of these columns those that differ
    x: Optional[str] = None  # what is varied
    y: Optional[str] = None  # what is drawn where the user names nothing; None: nothing is


def _at(content, pointer):
    """The value at a JSON pointer; None where it leads to nothing."""
    for key in pointer.strip("/").split("/"):
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _metrics(result):
    """Of a result, under the names that results() has too; times of a system that served nothing are none."""
    served = _at(result, "/metrics/requests") != 0
    return {name: _at(result, path) if served or not name.endswith("_s") else None
            for name, path in _native.METRIC_COLUMNS}


def _run(content):
    results = content["systems"] if "systems" in content else [content]
    return [{**{key: result.get(key) for key in ("scenario", "system", "executor", "seed")}, **_metrics(result)}
            for result in results]


def _explain(content):
    return [{"system": system["system"], **freed}
            for system in content["systems"] for freed in system.get("infinitely_fast", [])]


def _unnested(row, *left_out):
    """Without what is itself a list; of what is a mapping, its values under joined names."""
    flat = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update({f"{key}_{inner}": v for inner, v in _unnested(value).items()})
        elif not isinstance(value, list) and key not in left_out:
            flat[key] = value
    return flat


def _tune(content):
    return [_unnested(row) for key in ("points", "runs", "levels") for row in content.get(key, [])]


def _advise(content):
    return [_unnested(way) for way in content["ways"]]


def _memory(memory):
    """Bytes and counts of a memory plan, with their unit in the name."""
    return {name if name.endswith("blocks") or name.startswith("state_blocks") or isinstance(value, bool) else f"{name}_bytes":
            value for name, value in memory.items()}


def _check(content):
    rows = [dict(problem) for problem in content["problems"]]
    for system in content.get("systems", []):
        memory = system.get("memory_bytes") or system.get("memory_bytes_a_gpu")
        if memory:
            rows.append({"system": system["system"], "fits": system["fits"], **_memory(memory)})
        for server in system.get("servers", []):
            rows.append({"system": system["system"], "server": server["server"], **_memory(server["memory_bytes"]),
                         "experts": sum(gpu["held"] for gpu in server["experts"])})
    if "sweep" in content:
        rows.append({key: content[key] for key in ("sweep", "points", "combinations")})
    return rows


def _latencies(seed):
    """`ttft_s` is the mean, `ttft_p95_s` a percentile, as metrics of runs are called."""
    flat = {}
    for key, value in seed.items():
        if isinstance(value, dict) and key.endswith("_s"):
            flat.update({key if name == "mean" else f"{key[:-2]}_{name}_s": v for name, v in value.items()})
        else:
            flat.update(_unnested({key: value}))
    return flat


def _load(content):
    return [{"system": system["system"], "rate_per_s": point["rate_per_s"], "verdict": point["verdict"],
             "meets_level": point["meets_level"],
             **_latencies({key: value for key, value in seed.items() if key != "classes"})}
            for system in content["systems"] for point in system["points"] for seed in point["seeds"]]


def _compare(content):
    return [{**{key: value for key, value in block.items() if not isinstance(value, (dict, list))},
             **_unnested(policy, "policy")}
            for block in content["budgets"] for policy in block["policies"]]


def _report(content):
    return [row for given in content["results"] for row in _run(given)]


_SPEED = (("TTFT s", "ttft_s", 1), ("TPOT ms", "tpot_s", 1e3), ("p50", "tpot_p50_s", 1e3), ("p90", "tpot_p90_s", 1e3),
          ("p99", "tpot_p99_s", 1e3), ("tokens/s", "throughput_tokens_per_s", 1), ("end-to-end s", "end_to_end_s", 1))
_VIEWS = {
    "run": View(_run, (("system", "system", None), *_SPEED), by=("scenario", "system"), y="tpot_s"),
    "explain": View(_explain, (("system", "system", None), ("infinitely fast", "resource", None), ("busy %", "busy", 100),
                               ("times as fast", "times_as_fast", 1), ("TPOT ms", "tpot_s", 1e3)),
                    by=("system", "resource"), y="times_as_fast"),
    "tune": View(_tune, (), x="in_base_units", y="metric"),
    "tune alpha": View(_tune, (), x="alpha", y="tpot_s"),
    "tune residency": View(_tune, (), x="residency", y="tokens_per_s"),
    "advise": View(_advise, (("runtime", "runtime", None), ("weights", "weights", None), ("where", "where", None),
                             ("tokens/s", "decode_tokens_per_s", 1), ("low", "decode_range_low", 1),
                             ("high", "decode_range_high", 1), ("prompt s", "prompt_s", 1), ("GPU GB", "gpu_bytes", 1e-9),
                             ("host GB", "host_bytes", 1e-9), ("bound by", "bound", None), ("command", "command", None)),
                   by=("runtime", "weights", "where"), y="decode_tokens_per_s"),
    "check": View(_check, (), by=("system", "server"), y="expert_cache_bytes"),
    "models": View(lambda content: [_unnested(one) for one in content["models"]], by=("name",), y="parameters"),
    "devices": View(lambda content: [_unnested(one) for one in content["devices"]]),
    "load": View(_load, (("system", "system", None), ("rate per s", "rate_per_s", 1), ("seed", "seed", None),
                         ("verdict", "verdict", None), ("TTFT p95 s", "ttft_p95_s", 1), ("TPOT p99 ms", "tpot_p99_s", 1e3),
                         ("answered per s", "throughput_requests_per_s", 1), ("goodput per s", "goodput_requests_per_s", 1)),
                 by=("scenario", "system"), x="rate_per_s", y="ttft_p95_s"),
    "compare": View(_compare, (("budget", "budget", None), ("rank", "rank", 1), ("policy", "name", None),
                               ("TPOT ms", "tpot_s", 1e3), ("end-to-end s", "end_to_end_s", 1), ("hits %", "hit_share", 100), ("noise", "noise", None)),
                    by=("trace", "law", "name"), x="budget_bytes"),
    "report": View(_report, (("scenario", "scenario", None), ("system", "system", None), *_SPEED), by=("scenario", "system"), y="tpot_s"),
}


def view(command, content):
    """Of the command; tune's searches differ in what they vary, comparisons in what they are judged by."""
    kinds = {"runs": "tune alpha", "levels": "tune residency"} if command == "tune" else {}
    found = _VIEWS[next((kind for key, kind in kinds.items() if key in content), command)]
    return found._replace(y=content["judged_by"]) if command == "compare" else found


def rows(command, content):
    return view(command, content).rows(content)


def _cell(value, factor):
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value * (factor or 1):.4g}" if factor or isinstance(value, float) else str(value)
    return html.escape(str(value))


def html_table(command, content):
    """The page's table; numbers have four digits."""
    table = rows(command, content)
    names = list(dict.fromkeys(name for row in table for name in row))
    shown = [column for column in view(command, content).shown if column[1] in names] or [(name, name, None) for name in names]
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading, _, _ in shown)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row.get(name), factor)}</td>" for _, name, factor in shown) + "</tr>"
                   for row in table)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _unit_of(frame):
    """(unit, in base units) of a search's values, such as ("GB", 1e9); ("", 1) of plain numbers."""
    for text, base in zip(frame.get("value", ()), frame.get("in_base_units", ())):
        number, _, unit = str(text).partition(" ")
        if unit and float(number) != 0:
            return unit, base / float(number)
    return "", 1


def _metric(name):
    """With its unit: of a search's metrics latencies are seconds."""
    return f"{name}, s" if name.split()[0] in ("ttft", "tpot", "itl", "e2e", "normalised", "queueing") else name


def _labels(view, frame):
    """Of each row, what its bar or line is of; of columns that are the same everywhere the last."""
    there = [name for name in view.by if name in frame]
    told = [name for name in there if frame[name].nunique() > 1] or there[-1:]
    return frame[told].astype(str).agg(", ".join, axis=1) if told else frame.index.astype(str).map(lambda _: "")


def _curves(view, content, frame, y, ax):
    unit, scale = _unit_of(frame) if view.x == "in_base_units" else ("", 1)
    for name, part in frame.groupby(_labels(view, frame), sort=False):
        points = part.groupby(view.x)[y].mean().dropna()
        ax.plot(points.index / scale, points.values, marker="o", label=name)
    varied = content["key"] if view.x == "in_base_units" else view.x
    ax.set_xlabel(f"{varied}, {unit}" if unit else varied)
    if view.by:
        ax.legend()


def draw(view, content, frame, y, ax):
    """On matplotlib's axes, which it returns."""
    frame = frame.dropna(subset=[y])
    if view.x and (not view.by or frame[view.x].nunique() > 1):
        _curves(view, content, frame, y, ax)
        ax.set_ylabel(_metric(content["metric"]) if y == "metric" else y)
        ax.set_ylim(0, 1.05 * max(frame[y].max(), 0) or 1)
        return ax
    means = frame.groupby(_labels(view, frame), sort=False)[y].mean()
    ax.barh(means.index.astype(str), means.values)
    ax.invert_yaxis()  # the first on top, as in the table
    ax.set_xlabel(y)
    return ax
