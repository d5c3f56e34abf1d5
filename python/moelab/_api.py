"""The package's functions: Python's values to text and back."""

import collections.abc
import json
import operator
import os
import sys

from . import _native

NO_EXPERT = _native.NO_EXPERT
Trace = _native.Trace
__version__ = _native.__version__


def _plain(value):
    """What JSON has no word for: mappings of any kind, NumPy's numbers."""
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"expected numbers, texts, lists and mappings, got {type(value).__name__}: {value!r}")


def _json(value):
    return json.dumps(value, allow_nan=False, default=_plain)


def _text(value, what):
    """A text or a path, as a text."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a text or a path, got {type(value).__name__}: {value!r}")
    text.encode()  # raises for what is not UTF-8
    return text


def _yaml(value):
    """A setting as `--set` takes it: texts are read as YAML ("16 GB", "[1, 2]"), all else is written so."""
    return value if isinstance(value, str) else _json(value)


def _settings(settings):
    return [(str(path), _yaml(value)) for path, value in dict(settings or {}).items()]


def _configuration(given, what):
    """(name, text) of a dict, or (name or path, None)."""
    if isinstance(given, collections.abc.Mapping):
        return what, _json(given)
    return _text(given, what), None


def _names(given):
    names = [] if given is None else [given] if isinstance(given, (str, bytes)) else list(given)
    return [_text(name, "system") for name in names]


def run(scenario, system=None, settings=None, executor=None):
    """Runs a scenario: a dict, a path, or the name of one of moelab's own.

    system: name or names of its systems to run; None: all of them.
    settings: changes, by dotted path: {"budget": "16 GB", "workload.batch": 4}.
    executor: "fast" or "simgrid"; None: as `moelab run`, fast, and simgrid for scenarios with a cluster.

    Returns what `moelab run --format json` prints: one system's result as a dict, several in a list. Raises
    InputError with everything that is wrong.
    """
    name, text = _configuration(scenario, "the scenario")
    return json.loads(_native.run(name, text, _settings(settings), _names(system),
                                  _text(executor or "", "executor")))


def sweep(sweep, db, jobs=None, settings=None, fail_fast=False, again=False, cluster=None, program="moelab"):
    """Runs what is missing of a sweep (a dict, a path, or a name) into a store of results.

    jobs: points that run at a time, each in a process of its own; None: the processors here.
    settings: changes to the sweep itself, by dotted path: {"repeats": 3}.
    cluster: the address of a Dask scheduler, or its scheduler file (.json): its workers run the points, with
    the program `program` (a name or a path there); jobs is then for checking.
    fail_fast: stop at the first point that fails. again: run what the store has already, too.

    Returns how many points there were, were done, failed, with the failures. After KeyboardInterrupt the same
    call goes on where it stopped.
    """
    name, text = _configuration(sweep, "the sweep")
    jobs = len(os.sched_getaffinity(0)) if jobs is None else operator.index(jobs)
    if not 1 <= jobs <= 4096:
        raise ValueError(f"jobs: expected 1 to 4096, got {jobs}")
    cluster = None if cluster is None else _text(cluster, "cluster")
    if cluster == "":
        raise ValueError("cluster: expected the address of a Dask scheduler, got an empty text")
    return json.loads(_native.sweep(name, text, _settings(settings), _text(db, "db"), jobs, bool(fail_fast),
                                    bool(again), cluster or "", [_text(program, "program")], sys.executable))


def result(db, run):
    """The whole result of a run in a store (the column `run` of results()), as moelab.run() returned it."""
    return json.loads(_native.result(_text(db, "db"), _text(run, "run")))


def results(db, sweep=None):
    """A store's points as a pandas DataFrame: one row each, of one sweep or of all.

    Columns: sweep, point, series, system, one for each axis, status (None where a point did not run yet),
    one for each metric, and how the run went (error, host, wall_s, cpu_s, peak_bytes, seed, ..., run).

    An axis whose values are all numbers of one unit is numeric, in base units (bytes, seconds, ...);
    DataFrame.attrs["units"] says which. Any other stays as it was written.
    """
    import pandas

    rows, axes, metrics = [], {}, {}
    for name, points in json.loads(
            _native.outcomes(_text(db, "db"), None if sweep is None else _text(sweep, "sweep"))).items():
        for point in points:
            of_axes, of_metrics = point.pop("axes"), point.pop("metrics")
            for axis, value in of_axes.items():
                axes.setdefault(axis, []).append(value)
            metrics.update(dict.fromkeys(of_metrics))
            rows.append(({"sweep": name, **point}, of_axes, of_metrics))
    units = {axis: values[0]["unit"] for axis, values in axes.items()
             if all("unit" in v and v["unit"] == values[0]["unit"] for v in values)}

    def cell(axis, value):
        if value is None:
            return None
        if axis not in units:
            return value["text"]
        number = value["value"]
        return int(number) if units[axis] == "" and number == int(number) else number

    table = [{**point, **of_metrics,
              **{axis: cell(axis, of_axes.get(axis)) for axis in axes if axis != "system"}}
             for point, of_axes, of_metrics in rows]
    first = ["sweep", "point", "series", "system"]
    last = ["error", "host", "wall_s", "cpu_s", "peak_bytes", "scenario", "executor", "seed", "version",
            "started", "run"]
    columns = first + [axis for axis in axes if axis != "system"] + ["status"] + list(metrics) + last
    frame = pandas.DataFrame(table, columns=list(dict.fromkeys(columns)))
    frame.attrs["units"] = {axis: unit for axis, unit in units.items() if unit}
    return frame
