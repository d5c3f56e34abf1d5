"""What the families share."""

import enum
import math
from typing import ClassVar, Mapping, NamedTuple, Union

import numpy as np


class State(enum.IntEnum):
    """Which parts of an expert are in memory; parts are the plane of signs and mantissas, and the exponents."""

    F = 0  # full tensors, ready to use
    C = 1  # both planes, the exponents compressed
    S = 2  # the plane of signs and mantissas alone
    E = 3  # the compressed exponents alone
    M = 4  # nothing


class Parameter(NamedTuple):
    """A numeric parameter of a policy. Where `default` is an int it takes whole numbers only."""

    default: Union[int, float]
    help: str
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""


class Policy:
    """What the classes of all families share; subclass one of those."""

    family: ClassVar[str]
    name: ClassVar[str]
    """Small letters, digits, "-" and "_", a letter first."""
    source: ClassVar[str] = ""
    """The paper or code that defines it."""
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    version: ClassVar[str] = ""
    """To be changed with what the policy reads elsewhere, such as a file: a sweep runs again what another version ran.
    What the class does and holds itself is known without it."""


USE = np.dtype({"names": ["object", "tokens", "score", "next_use"], "formats": ["u4", "u4", "f4", "u8"],
                "offsets": [0, 4, 8, 16], "itemsize": 24})
"""An expert that a step used: its number in the domain, the tokens that it served, the sum of their gate scores (0
where the trace has none), and the step of its layer at which it is used next (NEVER where it is not; with
`needs_future`)."""


NEVER = 2**64 - 1
