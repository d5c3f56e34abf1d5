"""The package's functions: Python's values to text and back."""

import collections.abc
import json
import operator
import os
import sys

from . import _native, _progress
from ._errors import InputTypeError, refused
from ._figures import Figures
from .units import Quantity

NO_EXPERT = _native.NO_EXPERT
Trace = _native.Trace
__version__ = _native.__version__


def _plain(value):
    """What JSON has no word for: mappings of any kind, NumPy's numbers."""
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    if isinstance(value, Quantity):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"expected numbers, texts, lists and mappings, got {type(value).__name__}: {value!r}")


def _json(value, what):
    """As JSON, in which characters stand for themselves: YAML's reader knows no pairs of escapes."""
    try:
        text = json.dumps(value, allow_nan=False, default=_plain, ensure_ascii=False)
    except TypeError as error:
        raise refused(what, str(error), InputTypeError) from None
    except (ValueError, RecursionError) as error:
        raise refused(what, str(error)) from None
    return _utf8(text, what)


def _utf8(text, what):
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refused(what, f"expected text that is UTF-8: {error}") from None
    return text


def _text(value, what):
    """A text or a path, as a text."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value) if isinstance(value, Quantity) else value
    if not isinstance(text, str):
        raise refused(what, f"expected a text or a path, got {type(value).__name__}: {value!r}", InputTypeError)
    return _utf8(text, what)


def _settings(settings):
    """As `--set` takes them: texts are read as YAML ("16 GB", "[1, 2]"), all else is written so."""
    if not isinstance(settings or {}, collections.abc.Mapping):
        raise refused("settings", f"expected a mapping, got {type(settings).__name__}: {settings!r}", InputTypeError)
    return [(_text(path, "settings"), _text(value, path) if isinstance(value, (str, Quantity)) else _json(value, path))
            for path, value in (settings or {}).items()]


def _configuration(given, what):
    """(name, text) of a dict, or (name or path, None)."""
    if isinstance(given, collections.abc.Mapping):
        return what, _json(given, what)
    return _text(given, what), None


def _names(given):
    """Of systems; none at all is not what None means."""
    if given is None:
        return []
    if not isinstance(given, (str, bytes, collections.abc.Iterable)):
        raise refused("system", f"expected a name or names, got {type(given).__name__}: {given!r}", InputTypeError)
    names = [_text(name, "system") for name in ([given] if isinstance(given, (str, bytes)) else given)]
    if not names:
        raise refused("system", "expected the names of one system or more; None stands for all of them")
    return names


def _described(given):
    """What the native side takes of policies' classes."""
    if isinstance(given, type):
        given = [given]
    if not isinstance(given, collections.abc.Iterable):
        raise refused("policies", f"expected classes, got {type(given).__name__}: {given!r}", InputTypeError)
    classes = list(given)
    if not classes:
        return []
    from . import _registration

    described = [_registration.described(policy) for policy in classes]
    origins = [one["origin"] for one in described]
    for one in described:  # of two from one place in the source, each has its own
        if origins.count(one["origin"]) > 1:
            one["origin"] += f" ({one['family']} policy {one['name']})"
    return described


def run(scenario, system=None, settings=None, executor=None, policies=(), seeds=1):
    """Runs a scenario: a dict, a path, or the name of one of moelab's own.

    system: name or names of its systems to run; None: all of them.
    settings: changes, by dotted path: {"budget": "16 GB", "workload.batch": 4}.
    executor: "fast" or "simgrid"; None: as `moelab run`, fast, and simgrid for scenarios with a cluster.
    policies: classes of your own (moelab.policies), which systems choose by their names.
    seeds: so many are run, from the scenario's on, for the answer's comparison; results are of the first.

    Returns Figures: `systems`, the results that `moelab run --format json` prints; `answer`, which is the fastest and why;
    `frame()` and `plot()`. Of one system it is a mapping with that result. Raises InputError with everything that is wrong.
    """
    name, text = _configuration(scenario, "the scenario")
    seeds = _whole(seeds, "seeds", 1, 1000)
    with _progress.shown("run") as progress:
        results = json.loads(_native.run(name, text, _settings(settings), _names(system),
                                         _text(executor or "", "executor"), seeds, _described(policies), progress))
    return Figures({"systems": results, "answer": results[0]["answer"]} if isinstance(results, list) else results, "run")


def sweep(sweep, db, jobs=None, settings=None, fail_fast=False, again=False, cluster=None, program="moelab",
          verify_share=0, policies=()):
    """Runs what is missing of a sweep (a dict, a path, or a name) into a store of results.

    jobs: points that run at a time, each in a process of its own; None: the processors here.
    settings: changes to the sweep itself, by dotted path: {"repeats": 3}.
    cluster: the address of a Dask scheduler, or its scheduler file (.json): its workers run the points, with
    the program `program` (a name or a path there); jobs is then for checking.
    fail_fast: stop at the first point that fails. again: run what the store has already, too.
    verify_share: of the runs, 0 to 1, chosen by chance: run a second time, on another worker where there is one;
    a run whose two results are not the same bytes has failed.
    policies: classes of your own (moelab.policies); a run is made again when what its class does or holds has changed. Not
    with a cluster, whose workers have none.

    Returns how many points there were, were done, failed, with the failures. After KeyboardInterrupt the same
    call goes on where it stopped.
    """
    name, text = _configuration(sweep, "the sweep")
    jobs = _jobs(jobs)
    cluster = None if cluster is None else _text(cluster, "cluster")
    if cluster == "":
        raise refused("cluster", "expected the address of a Dask scheduler, got an empty text")
    classes = _described(policies)
    if classes and cluster is not None:
        raise refused("policies", "are classes of this process, which the workers of a cluster do not have; expected a "
                      "sweep on this machine, or a library of policies in C++ (policy_libraries)")
    if not isinstance(verify_share, (int, float)) or not 0 <= verify_share <= 1:
        raise refused("verify_share", f"expected a number from 0 to 1, got {verify_share!r}")
    with _progress.shown("sweep") as progress:
        return json.loads(_native.sweep(name, text, _settings(settings), _text(db, "db"), jobs, bool(fail_fast),
                                        bool(again), float(verify_share), cluster or "", [_text(program, "program")],
                                        sys.executable, classes, progress))


def _whole(given, what, least, most):
    """A whole number within bounds."""
    try:
        number = operator.index(given)
    except TypeError as error:
        raise refused(what, str(error), InputTypeError) from None
    if not least <= number <= most:
        raise refused(what, f"expected {least} to {most}, got {number}")
    return number


def _jobs(given):
    """Processes at a time."""
    return len(os.sched_getaffinity(0)) if given is None else _whole(given, "jobs", 1, 4096)


def _list(given, what):
    """Of texts or paths: one, several or none."""
    if given is None:
        return []
    one = isinstance(given, (str, bytes, os.PathLike, Quantity))
    if not one and not isinstance(given, collections.abc.Iterable):
        raise refused(what, f"expected a list, got {type(given).__name__}: {given!r}", InputTypeError)
    return [_text(value, what) for value in ([given] if one else given)]


def _budgets(given):
    """Texts, and numbers of GB."""
    numbers = (int, float)
    if isinstance(given, numbers):
        given = [given]
    if isinstance(given, collections.abc.Iterable) and not isinstance(given, (str, bytes)):
        given = [f"{value} GB" if isinstance(value, numbers) else value for value in given]
    return _list(given, "budgets")


def compare(scenario, names=None, family="cache", system=None, traces=None, laws=None, budgets=None, seeds=5, jobs=None,
            settings=None, policies=(), leaderboard=None):
    """Runs a system under several policies of a family, on the same traces, budgets and seeds: `moelab compare`.

    names: policies between which to compare, such as ["lru", "lru-k:k=3"]; None or "all": all that the system can run, those in
    `policies` too. What bounds the family (belady for caches) is always run.
    system: of the scenario; None: the first. traces, laws: in the place of the scenario's routing.
    budgets: texts such as "16 GB", or numbers of GB; None: the scenario's.
    seeds: runs of each, each with a seed of its own. jobs: processes at a time; None: the processors here.
    policies: classes of your own (moelab.policies).
    leaderboard: a file to which each policy's figures are appended, with its class's digest: `moelab leaderboard FILE`.

    Returns Figures of what `moelab compare --format json` prints: for each trace and budget the policies by rank, with hits,
    time per output token or latency, regret to the bound, and which differences are noise.
    """
    name, text = _configuration(scenario, "the scenario")
    names = None if names == "all" else names
    seeds = _whole(seeds, "seeds", 1, 1000)
    leaderboard = "" if leaderboard is None else _text(leaderboard, "leaderboard")
    with _progress.shown("compare") as progress:
        return Figures(json.loads(_native.compare(name, text, _settings(settings), _text(system or "", "system"),
                                                  _text(family, "family"), _list(names, "names"), _list(traces, "traces"),
                                                  _list(laws, "laws"), _budgets(budgets), seeds, _jobs(jobs), leaderboard,
                                                  _described(policies), progress)), "compare")


def check_policy(policy, instances=2000, seed=1):
    """Plays a policy's class on random instances, each twice, and looks at every step: whether it keeps the rules of
    its family. Raises InputError with the instance and the rule that it breaks; returns how many instances there were,
    and how many of them it refused. One that never returns is ended with Ctrl-C."""
    if not isinstance(policy, type):
        raise refused("policy", f"expected a class, got {type(policy).__name__}: {policy!r}", InputTypeError)
    try:
        instances, seed = operator.index(instances), operator.index(seed)
    except TypeError as error:
        raise refused("instances", str(error), InputTypeError) from None
    if not 1 <= instances < 2**32 or not 0 <= seed < 2**63:
        raise refused("instances", f"expected 1 to 2^32 instances and a seed from 0 on, got {instances} and {seed}")
    return json.loads(_native.check_policy(_described(policy), instances, seed))


def cmake_dir():
    """The folder in which CMake finds moelab::policy, with which policies of your own are compiled:
    cmake -Dmoelab_DIR=... ; MOELAB_POLICY_PATH, or policy_libraries in a scenario, then names the library."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "cmake", "moelab")


def result(db, run):
    """The whole result of a run in a store (the column `run` of results()), as moelab.run() of its system, without the answer."""
    return Figures(json.loads(_native.result(_text(db, "db"), _text(run, "run"))), "run")


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
