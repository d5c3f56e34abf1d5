from os import PathLike
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

import numpy as np
import numpy.typing as npt
import pandas as pd

from . import units as units
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
from .units import (
    GB as GB,
    GiB as GiB,
    KiB as KiB,
    MB as MB,
    MiB as MiB,
    Quantity as _Quantity,
    TB as TB,
    TiB as TiB,
    kB as kB,
)

__version__: str
NO_EXPERT: int
"""The expert id that stands for "this layer does not run for this token"."""

_Name = Union[str, "PathLike[str]"]
_Configuration = Union[_Name, Mapping[str, Any]]
_Value = Union[str, float, _Quantity]
_Result = Union[_Name, Mapping[str, Any], List[Any]]
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

class Answer(Dict[str, Any]):
    """The fields of an answer; its str() is the sentences."""

class Figures(Dict[str, Any]):
    """What `moelab COMMAND --format json` prints, as a mapping, and the table and the picture of it.

    Of a run of one system the mapping is that system's result; of several it has "systems" and "answer".
    """

    def __init__(self, content: Mapping[str, Any], command: str) -> None: ...
    @property
    def systems(self) -> List[Any]:
        """What there is of each system; empty of a call that is not of systems."""
    @property
    def answer(self) -> Optional[Answer]: ...
    def frame(self) -> pd.DataFrame:
        """Of a run a row a system, of a search or a load curve a row a point; columns say their units."""
    def plot(self, y: Optional[str] = None, ax: Any = None) -> Any:
        """Draws a column of frame() with matplotlib and returns the axes: a curve where something was varied, else bars."""
    def copy(self) -> "Figures": ...

def run(
    scenario: _Configuration,
    system: Union[None, str, Sequence[str]] = None,
    settings: Optional[Mapping[str, Any]] = None,
    executor: Optional[str] = None,
    policies: _Policies = (),
    seeds: int = 1,
) -> Figures: ...
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
    budgets: Union[_Value, Iterable[_Value], None] = None,
    seeds: int = 5,
    jobs: Optional[int] = None,
    settings: Optional[Mapping[str, Any]] = None,
    policies: _Policies = (),
    leaderboard: Optional[_Name] = None,
) -> Figures: ...
def check_policy(policy: Type[_Policy], instances: int = 2000, seed: int = 1) -> Dict[str, int]: ...
def cmake_dir() -> str: ...
def result(db: _Name, run: str) -> Figures: ...
def results(db: _Name, sweep: Optional[str] = None) -> pd.DataFrame: ...
def explain(
    result: _Result, other: Optional[_Result] = None, system: Optional[str] = None, other_system: Optional[str] = None
) -> Figures: ...
def tune(
    key: str,
    scenario: _Configuration,
    system: Optional[str] = None,
    for_: Optional[str] = None,
    max: Optional[_Value] = None,
    min: Optional[_Value] = None,
    from_: Optional[_Value] = None,
    to: Optional[_Value] = None,
    step: Optional[_Value] = None,
    points: Optional[int] = None,
    seeds: Optional[int] = None,
    jobs: Optional[int] = None,
    settings: Optional[Mapping[str, Any]] = None,
    tpot: Optional[_Value] = None,
    degree: Optional[int] = None,
    steps: Optional[int] = None,
    most: Optional[float] = None,
    tolerance: Optional[float] = None,
    requests: Optional[int] = None,
) -> Figures: ...
def advise(
    model: _Name,
    machine: Union[_Name, Mapping[str, Any], None] = None,
    gpu: Optional[str] = None,
    gpus: Optional[int] = None,
    cpu: Optional[str] = None,
    sockets: Optional[int] = None,
    memory: Optional[str] = None,
    ram: Optional[_Value] = None,
    ssd: Optional[str] = None,
    runtime: Union[str, Sequence[str], None] = None,
    weights: Union[str, Sequence[str], None] = None,
    kv: Optional[str] = None,
    budget: Optional[_Value] = None,
    prompt: Optional[float] = None,
    answer: Optional[float] = None,
    context: Optional[float] = None,
    users: Optional[float] = None,
    policies: bool = True,
) -> Figures: ...
def check(scenario: _Configuration, settings: Optional[Mapping[str, Any]] = None, yes: bool = False) -> Figures: ...
def models() -> Figures: ...
def devices() -> Figures: ...
def load(
    scenario: _Configuration,
    rates: Union[str, float, Iterable[float], None] = None,
    find: bool = False,
    slo: Optional[str] = None,
    share: Optional[float] = None,
    system: Union[str, Sequence[str], None] = None,
    requests: Optional[int] = None,
    seeds: Optional[int] = None,
    jobs: Optional[int] = None,
    executor: Optional[str] = None,
    tolerance: Optional[float] = None,
    settings: Optional[Mapping[str, Any]] = None,
) -> Figures: ...
def report(
    given: Union[_Result, Sequence[_Result]], out: _Name, title: Optional[str] = None, sweep: Optional[str] = None
) -> Figures: ...
