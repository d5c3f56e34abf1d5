"""Simulates Mixture-of-Experts serving beyond device memory: scenarios, what-if sweeps, routing traces.

    import moelab
    run = moelab.run("zipmoe-orin", system="zipmoe", settings={"budget": moelab.GB(16)})
    print(run.answer, run["metrics"]["ttft_s"], run.frame())

The compiled part is loaded when it is first asked for: `python3 -m moelab.cluster` does without.
"""

import importlib

_POLICIES = ["BatchRequest", "BatchStep", "BatchingPolicy", "CachePolicy", "ExecutionPolicy", "Feature", "KvUse",
             "LayerOrder", "NEVER", "Parameter", "PlacementPolicy", "Plan", "PlanningPolicy", "PrefetchPolicy", "PressurePolicy",
             "PriorityCachePolicy", "ResidencyPolicy", "Role", "RoutingPolicy", "SM_CHUNK", "SchedulePolicy", "State", "StepShare",
             "StoragePolicy"]
_COMMANDS = ["advise", "check", "devices", "explain", "load", "models", "report", "tune"]
_SIZES = ["GB", "GiB", "KiB", "MB", "MiB", "TB", "TiB", "kB"]
__all__ = ["Answer", "Figures", "InputError", "NO_EXPERT", "Problem", "Trace", "__version__", "check_policy", "cmake_dir", "compare", "result",
           "results", "run", "sweep", "units", *_COMMANDS, *_SIZES, *_POLICIES]


def __getattr__(name):
    if name in _POLICIES:
        from . import policies

        return getattr(policies, name)
    if name in ("InputError", "Problem"):
        from . import _errors

        return getattr(_errors, name)
    if name in ("Answer", "Figures"):
        from . import _figures

        return getattr(_figures, name)
    if name in _COMMANDS:
        from . import _commands

        return getattr(_commands, name)
    if name == "units" or name in _SIZES:
        units = importlib.import_module(".units", __name__)
        return units if name == "units" else getattr(units, name)
    if name in __all__:
        from . import _api

        return getattr(_api, name)
    raise AttributeError(f"module 'moelab' has no attribute '{name}'")


def __dir__():
    return sorted(__all__)
