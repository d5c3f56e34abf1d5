"""Simulates Mixture-of-Experts serving beyond device memory: scenarios, what-if sweeps, routing traces.

    import moelab
    moelab.run("zipmoe-orin", system="zipmoe", settings={"budget": "16 GB"})["metrics"]["ttft_s"]

The compiled part is loaded when it is first asked for: `python3 -m moelab.cluster` does without.
"""

_POLICIES = ["BatchRequest", "BatchStep", "BatchingPolicy", "CachePolicy", "ExecutionPolicy", "Feature", "KvUse",
             "LayerOrder", "NEVER", "Parameter", "PlacementPolicy", "Plan", "PlanningPolicy", "PrefetchPolicy", "PressurePolicy",
             "PriorityCachePolicy", "ResidencyPolicy", "Role", "RoutingPolicy", "SM_CHUNK", "SchedulePolicy", "State", "StepShare",
             "StoragePolicy"]
__all__ = ["InputError", "NO_EXPERT", "Problem", "Trace", "__version__", "check_policy", "cmake_dir", "compare", "result",
           "results", "run", "sweep", *_POLICIES]


def __getattr__(name):
    if name in _POLICIES:
        from . import policies

        return getattr(policies, name)
    if name in ("InputError", "Problem"):
        from . import _errors

        return getattr(_errors, name)
    if name in __all__:
        from . import _api

        return getattr(_api, name)
    raise AttributeError(f"module 'moelab' has no attribute '{name}'")


def __dir__():
    return sorted(__all__)
