"""What the native side asks of a policy's class, and of what it raises."""

import collections.abc
import os
import sys
import sysconfig
import traceback

from . import policies
from ._digest import NoDigest, digest
from ._errors import InputError, InputTypeError, refused

_LONGEST = 500  # characters of an exception's text in a message


def described(policy):
    """What the class says of itself, as the native side takes it. Raises InputError with what is wrong."""
    if not (isinstance(policy, type) and issubclass(policy, policies.Policy)):
        raise refused("policies", f"expected subclasses of moelab.CachePolicy and the like, got {shown(policy)}",
                      InputTypeError)
    what = f"policy {policy.__module__}.{policy.__qualname__}"
    if not hasattr(policy, "family") or not isinstance(getattr(policy, "name", None), str):
        raise refused(what, "has no name: expected a class attribute, such as name = \"my-lru\""
                      if hasattr(policy, "family") else "is of no family: subclass moelab.CachePolicy or the like")
    family = next(one for one in policy.__mro__ if "family" in vars(one))
    if not family.__module__.startswith(policies.__name__ + "."):
        raise refused(what, f"has a family of its own, {shown(policy.family)}: subclass moelab.CachePolicy or the like")
    _check_priorities(what, policy)
    help = (policy.__dict__.get("__doc__") or "").strip().split("\n")[0]
    if not help:
        raise refused(what, "has no docstring: its first line says what the policy does")
    return {"type": policy, "family": policy.family, "name": policy.name, "help": help,
            "source": str(policy.source), "origin": f"Python class {policy.__module__}.{policy.__qualname__}",
            "digest": _digest_of(what, policy), "parameters": _parameters(what, policy)}


def _check_priorities(what, policy):
    """What a cache that answers with priorities would never be asked."""
    if not issubclass(policy, policies.PriorityCachePolicy):
        return
    for name in ("use", "insert", "observe", "needs_future", "needs_all_scores", "uses_pools", "needs_profile", "preloads"):
        if getattr(policy, name, False):
            raise refused(what, f"has '{name}', which a PriorityCachePolicy has not: subclass moelab.CachePolicy")


def _parameters(what, policy):
    if not isinstance(policy.parameters, collections.abc.Mapping):
        raise refused(what, f"expected parameters = {{\"name\": moelab.Parameter(default, help)}}, got "
                      f"{shown(policy.parameters)}", InputTypeError)
    return [_parameter(what, policy, *p) for p in policy.parameters.items()]


def _parameter(what, policy, name, parameter):
    if policy.family == "planning":
        raise refused(what, "has parameters; policies of family planning have none")
    if not isinstance(name, str) or not isinstance(parameter, policies.Parameter):
        raise refused(what, f"expected parameters = {{\"name\": moelab.Parameter(default, help)}}, got {shown(name)}: "
                      f"{shown(parameter)}", InputTypeError)
    try:
        default, low, high = float(parameter.default), float(parameter.low), float(parameter.high)
    except (TypeError, ValueError, OverflowError):
        raise refused(what, f"parameter '{name}': expected numbers, got {shown(parameter)}", InputTypeError) from None
    return {"name": name, "argument": name.replace("-", "_"), "whole": isinstance(parameter.default, int),
            "default": default, "low": low, "high": high, "unit": str(parameter.unit), "help": str(parameter.help)}


def _digest_of(what, policy):
    try:
        return digest((policy.version, policy))
    except NoDigest as nothing:
        if policy.version:
            return digest((policy.version, policy.__qualname__))
        raise refused(what, f"holds {nothing}, of which is not known when it changes: expected a class attribute version, "
                      "a text to be changed with it") from None


def told(error):
    """(its kind, text and place; its problems where it is an InputError)."""
    if isinstance(error, InputError):
        return _line(str(error)), [(_line(p.file), int(p.line), int(p.column), _line(p.what)) for p in error.problems]
    text = _text(str, error)[:_LONGEST]
    place = _place(error.__traceback__)
    return _line(f"{type(error).__name__}{': ' + text if text else ''}{place}"), []


def _line(text):
    """On one line, and such as UTF-8 can say."""
    return " ".join(text.split()).encode(errors="replace").decode()


def _text(of, value):
    try:
        return _line(of(value))
    except Exception:  # whatever its own __str__ or __repr__ raises
        return f"an object of {type(value).__qualname__}"


def _place(trace):
    """The innermost line of what the user wrote."""
    theirs = tuple(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
    frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith(theirs)]
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""


def shown(value):
    """A value as a message can show it."""
    text = _text(repr, value)
    return text if len(text) <= 80 else text[:77] + "..."


def flush():
    """What policies printed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # none, or closed
            pass
