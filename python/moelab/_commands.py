"""What the package has the program do: each function is the command of its name, and takes its options as keywords."""

import collections.abc
import json
import os

from . import _native
from ._api import _configuration, _json, _settings, _text, result
from ._errors import InputError, InputTypeError, refused
from ._figures import Figures
from ._program import Call
from .units import Quantity


def _flags(options):
    """`for_` and `other_system` as --for and --other-system; None and False: left out; of a list each."""
    words = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
            continue
        several = isinstance(value, (list, tuple, set))
        words += [f"{flag}={_word(one, name)}" for one in (value if several else [value])]
    return words


def _word(value, what):
    """A value as the command line takes it."""
    if isinstance(value, (str, os.PathLike, Quantity)):
        return _text(value, what)
    return _json(value, what)


def _place(value, what):
    """A name or a path where no option is expected."""
    text = _text(value, what)
    return "./" + text if text.startswith("-") else text


def _scenario(call, scenario, settings):
    """The words that name it, and its changes. A dict is read here, where its relative names are those of this folder."""
    settings = _settings(settings)
    if isinstance(scenario, collections.abc.Mapping):
        name, text = _configuration(scenario, "the scenario")
        return [call.file(_native.resolved(name, text, settings), name)]
    return [_place(scenario, "scenario"), *(f"--set={path}={value}" for path, value in settings)]


def _result(call, given, what):
    """The path of a result: of what run() returned, of what a file of JSON has, or a path."""
    if isinstance(given, Figures):
        given = given.systems
    if isinstance(given, (collections.abc.Mapping, list)):
        return call.file(_json(given, what), what)
    return _place(given, what)


def explain(result, other=None, system=None, other_system=None):
    """What bounds a run, what faster parts and the best cache would bring, and why two runs differ.

    result, other: what run() returned, or paths of results (`moelab run --out`). system, other_system: of their systems.
    frame() has a row for each system and resource: how busy it is, and how many times as fast a token would be if it took no time.
    """
    with Call() as call:
        words = ["explain", _result(call, result, "the result")]
        if other is not None:
            words.append(_result(call, other, "the other result"))
        return Figures(call.json(words + _flags({"system": system, "other_system": other_system})), "explain")


def tune(key, scenario, system=None, for_=None, max=None, min=None, from_=None, to=None, step=None, points=None, seeds=None,
         jobs=None, settings=None, tpot=None, degree=None, steps=None, most=None, tolerance=None, requests=None):
    """The values of a number of the scenario for which a condition holds, or the best one.

    key: such as "budget" or "workload.batch"; "alpha" and "residency" have searches of their own.
    for_: a condition, "tpot < 60 ms"; max, min: a metric, such as "tokens_per_s". from_, to, step: of the values, with units.
    points: values that are looked at first. seeds: runs at each value. requests: of a run. jobs: processes at a time.
    tpot, degree: of alpha. steps, most, tolerance: of residency. The rest is as `moelab tune --help` says it.
    frame() has a row a value, `answer` the sentences.
    """
    with Call() as call:
        options = {"system": system, "for_": for_, "max": max, "min": min, "from_": from_, "to": to, "step": step,
                   "points": points, "seeds": seeds, "requests": requests, "jobs": jobs, "tpot": tpot, "degree": degree, "steps": steps, "most": most,
                   "tolerance": tolerance}
        return Figures(call.json(["tune", _place(key, "key"), *_scenario(call, scenario, settings), *_flags(options)], also=(1,)),
                       "tune")


def advise(model, machine=None, gpu=None, gpus=None, cpu=None, sockets=None, memory=None, ram=None, ssd=None, runtime=None,
           weights=None, kv=None, budget=None, prompt=None, answer=None, context=None, users=None, policies=True):
    """In which runtime, weight format and split between GPU and CPU a model runs on a machine, and how fast.

    machine: a mapping of its parts, {"gpu": "rtx-4090-24gb", "cpu": "i9-14900K", "memory": "ddr5-6000 x 2", "ram": "64 GiB"}, or
    a YAML file of them; gpu ... ssd go before it. runtime, weights: only these, one or several. kv: format of the KV cache.
    budget: what all of it may take of each GPU's memory, or of the host's. prompt, answer, context: tokens. users: who decode at once.
    policies: whether other policies are simulated too. frame() has a row a way: those of four bits and more first, the fastest of them before the others.
    """
    parts = {"gpu": gpu, "gpus": gpus, "cpu": cpu, "sockets": sockets, "memory": memory, "ram": ram, "ssd": ssd}
    if isinstance(machine, collections.abc.Mapping):
        parts["machine"] = _json(machine, "machine")
    else:
        parts["machine"] = machine
    options = {"model": _text(model, "model"), **parts, "runtime": runtime, "weights": weights, "kv": kv, "budget": budget,
               "prompt": prompt, "answer": answer, "context": context, "users": users, "no_policies": not policies}
    with Call() as call:
        return Figures(call.json(["advise", *_flags(options)]), "advise")


def check(scenario, settings=None, yes=False):
    """Everything that is wrong with a scenario or sweep (a dict, a path, or a name), or its memory plan. Runs nothing.

    ["valid"] says whether it is, ["problems"] what is wrong; nothing is raised for it. frame() has a row for each system's memory
    in bytes, or for each problem. yes: more than 10,000 combinations of a sweep are meant.
    """
    try:
        with Call() as call:
            sweep = isinstance(scenario, collections.abc.Mapping) and "scenario" in scenario
            words = ([call.file(_json(scenario, "the sweep"), "the sweep")] + [f"--set={p}={v}" for p, v in _settings(settings)]
                     if sweep else _scenario(call, scenario, settings))
            return Figures(call.json(["check", *words, *_flags({"yes": bool(yes)})], also=(1, 2)), "check")
    except InputTypeError:
        raise
    except InputError as error:
        return Figures({"valid": False, "problems": [{"file": p.file, "line": p.line, "column": p.column, "what": p.what}
                                                     for p in error.problems]}, "check")


def models():
    """The architectures that moelab has: parameters, experts and bytes of each. ["models"], or frame(), a row each."""
    with Call() as call:
        return Figures({"models": call.json(["models"])}, "models")


def devices():
    """The device profiles that moelab has, and where each of their numbers is from. ["devices"], or frame(), a row each."""
    with Call() as call:
        return Figures({"devices": call.json(["devices"])}, "devices")


def load(scenario, rates=None, find=False, slo=None, share=None, system=None, requests=None, seeds=None, jobs=None,
         executor=None, tolerance=None, settings=None):
    """Runs a scenario's systems at several request rates: latencies, throughput and goodput over the rate.

    rates: requests a second, a number or several. slo: "ttft p95 < 500 ms, tpot p99 < 50 ms"; share: percent of requests that
    must be within it at once. find: look for the highest rate that meets it, within `tolerance`. requests: of a run.
    frame() has a row for each system, rate and seed, in SI units, of which service_... say what a token takes; plot() its curves.
    """
    if rates is not None and not isinstance(rates, str):
        rates = ",".join(_word(rate, "rates") for rate in (rates if isinstance(rates, collections.abc.Iterable) else [rates]))
    with Call() as call:
        options = {"rates": rates, "find": bool(find), "slo": slo, "share": share, "system": system, "requests": requests,
                   "seeds": seeds, "jobs": jobs, "executor": executor, "tolerance": tolerance}
        return Figures(call.json(["load", *_scenario(call, scenario, settings), *_flags(options)], also=(1,)), "load")


def report(given, out, title=None, sweep=None):
    """Writes one HTML page with tables and charts, which needs no network.

    given: what run() returned, paths of results, or several of them; or the path of a sweep's store, of which `sweep` names
    one. out: the page to write. ["page"] is its path; frame() has a row for each run's result.
    """
    several = isinstance(given, (list, tuple))
    with Call() as call:
        files = [_result(call, one, "the result") for one in (given if several else [given])]
        call.text(["report", *files, *_flags({"out": _text(out, "out"), "title": title, "sweep": sweep})])
        return Figures({"page": _text(out, "out"), "results": [r for file in files for r in _held(file, sweep)]}, "report")


def _held(file, sweep):
    """The results of runs in a file, or those of a store. Curves of `moelab load` and published measurements are none."""
    with open(file, "rb") as content:
        if content.read(16).startswith(b"SQLite format 3"):
            sweeps = json.loads(_native.outcomes(file, sweep))
            return [dict(result(file, point["run"])) for points in sweeps.values() for point in points
                    if point["status"] == "done"]
    with open(file, encoding="utf-8") as content:
        held = json.load(content)
    return [one for one in (held if isinstance(held, list) else [held]) if "metrics" in one]
