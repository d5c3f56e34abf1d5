"""The package's functions: Python's values to text and back."""

import json
import os
import sys

from . import _native

NO_EXPERT = _native.NO_EXPERT
Trace = _native.Trace
__version__ = _native.__version__


def _yaml(value):
    """A setting as `--set` takes it: texts are read as YAML ("16 GB", "[1, 2]"), all else is written so."""
    return value if isinstance(value, str) else json.dumps(value, allow_nan=False)


def _settings(settings):
    return [(str(path), _yaml(value)) for path, value in dict(settings or {}).items()]


def _configuration(given, what):
    """(name, text) of a dict, or (name or path, None)."""
    if isinstance(given, dict):
        return what, json.dumps(given, allow_nan=False)
    return os.fspath(given), None


def _names(given):
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def run(scenario, system=None, settings=None, executor=None):
    """Runs a scenario: a dict, a path, or the name of one of moelab's own.

    system: name or names of its systems to run; None: all of them.
    settings: changes, by dotted path: {"budget": "16 GB", "workload.batch": 4}.
    executor: "fast" or "simgrid"; None: as `moelab run`, fast, and simgrid for scenarios with a cluster.

    Returns what `moelab run --format json` prints: one system's result as a dict, several in a list. Raises
    InputError with everything that is wrong.
    """
    name, text = _configuration(scenario, "the scenario")
    return json.loads(_native.run(name, text, _settings(settings), _names(system), executor or ""))


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
    jobs = len(os.sched_getaffinity(0)) if jobs is None else int(jobs)
    if jobs < 1:
        raise ValueError(f"jobs: expected 1 at least, got {jobs}")
    return json.loads(_native.sweep(name, text, _settings(settings), os.fspath(db), jobs, bool(fail_fast),
                                    bool(again), cluster or "", [os.fspath(program)], sys.executable))


def result(db, run):
    """The whole result of a run in a store (the column `run` of results()), as moelab.run() returned it."""
    return json.loads(_native.result(os.fspath(db), run))


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
            _native.outcomes(os.fspath(db), None if sweep is None else str(sweep))).items():
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
