from os import PathLike
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

import numpy as np
import numpy.typing as npt
import pandas as pd

from .policies import Policy as _Policy
from .policies import (
    BatchRequest as BatchRequest,
    BatchStep as BatchStep,
    BatchingPolicy as BatchingPolicy,
    CachePolicy as CachePolicy,
    ExecutionPolicy as ExecutionPolicy,
    Feature as Feature,
    KvUse as KvUse,
    LayerOrder as LayerOrder,
    NEVER as NEVER,
    Parameter as Parameter,
    PlacementPolicy as PlacementPolicy,
    Plan as Plan,
    PlanningPolicy as PlanningPolicy,
    PrefetchPolicy as PrefetchPolicy,
    PressurePolicy as PressurePolicy,
    PriorityCachePolicy as PriorityCachePolicy,
    ResidencyPolicy as ResidencyPolicy,
    Role as Role,
    RoutingPolicy as RoutingPolicy,
    SM_CHUNK as SM_CHUNK,
    SchedulePolicy as SchedulePolicy,
    State as State,
    StepShare as StepShare,
    StoragePolicy as StoragePolicy,
)

__version__: str
NO_EXPERT: int
"""The expert id that stands for "this layer does not run for this token"."""

_Name = Union[str, "PathLike[str]"]
_Configuration = Union[_Name, Mapping[str, Any]]
_Policies = Union[Type[_Policy], Iterable[Type[_Policy]]]

class Problem(NamedTuple):
    file: str
    line: int
    column: int
    what: str
    text: str

class InputError(ValueError):
    problems: List[Problem]

    def __init__(self, problems: Union[str, Iterable[Tuple[str, int, int, str, str]]]) -> None: ...

class Trace:
    """A routing trace: a safetensors file (traces/README.md), or the name of moelab's own, "debian-moe-8x32".

    Arrays are read-only and lie in the mapped file, which stays mapped as long as one of them is there; the
    file may be replaced or removed meanwhile, but not be changed in place. What the file has in BF16 or F16,
    misaligned or compressed is converted once.
    """

    def __init__(self, path: _Name) -> None: ...
    def __len__(self) -> int:
        """How many requests."""
    @property
    def tokens(self) -> int: ...
    @property
    def layers(self) -> int:
        """MoE layers."""
    @property
    def experts(self) -> int:
        """Routed experts of a layer."""
    @property
    def top_k(self) -> int: ...
    @property
    def model(self) -> str: ...
    @property
    def provenance(self) -> str: ...
    @property
    def synthetic(self) -> bool: ...
    @property
    def domains(self) -> List[str]:
        """Kinds of prompts."""
    @property
    def expert_ids(self) -> npt.NDArray[np.uint16]:
        """[tokens, layers, top_k], by falling score; NO_EXPERT where the layer does not run."""
    @property
    def gate_scores(self) -> Optional[npt.NDArray[np.float32]]:
        """[tokens, layers, top_k], None where the trace has none."""
    @property
    def lookahead_ids(self) -> Optional[npt.NDArray[np.uint16]]:
        """[tokens, layers, top_k]: what the router picks when given the previous layer's input."""
    @property
    def candidate_ids(self) -> Optional[npt.NDArray[np.uint16]]:
        """[tokens, layers, candidates]: the experts whose router scores are known."""
    @property
    def request_offsets(self) -> npt.NDArray[np.uint64]:
        """[requests + 1]: request i has the tokens from request_offsets[i] to request_offsets[i + 1] (a copy)."""
    @property
    def decode_offsets(self) -> npt.NDArray[np.uint64]:
        """[requests]: the first token of each request that was decoded (a copy)."""
    @property
    def request_domains(self) -> Optional[npt.NDArray[np.uint16]]:
        """[requests]: places in `domains` (a copy)."""
    @property
    def phases(self) -> npt.NDArray[np.uint8]:
        """[tokens]: 0 encoder, 1 prefill, 2 decode (a copy)."""

def run(
    scenario: _Configuration,
    system: Union[None, str, Sequence[str]] = None,
    settings: Optional[Mapping[str, Any]] = None,
    executor: Optional[str] = None,
    policies: _Policies = (),
) -> Any: ...
def sweep(
    sweep: _Configuration,
    db: _Name,
    jobs: Optional[int] = None,
    settings: Optional[Mapping[str, Any]] = None,
    fail_fast: bool = False,
    again: bool = False,
    cluster: Optional[_Name] = None,
    program: _Name = "moelab",
    verify_share: float = 0,
    policies: _Policies = (),
) -> Dict[str, Any]: ...
def compare(
    scenario: _Configuration,
    names: Union[str, Iterable[str], None] = None,
    family: str = "cache",
    system: Optional[str] = None,
    traces: Union[_Name, Iterable[_Name], None] = None,
    laws: Union[_Name, Iterable[_Name], None] = None,
    budgets: Union[str, float, Iterable[Union[str, float]], None] = None,
    seeds: int = 5,
    jobs: Optional[int] = None,
    settings: Optional[Mapping[str, Any]] = None,
    policies: _Policies = (),
    leaderboard: Optional[_Name] = None,
) -> Dict[str, Any]: ...
def check_policy(policy: Type[_Policy], instances: int = 2000, seed: int = 1) -> Dict[str, int]: ...
def cmake_dir() -> str: ...
def result(db: _Name, run: str) -> Dict[str, Any]: ...
def results(db: _Name, sweep: Optional[str] = None) -> pd.DataFrame: ...
