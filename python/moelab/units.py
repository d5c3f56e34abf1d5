"""Numbers with units, by the names of the program's own table: units.GB(16), units.ms(40), units.GB_per_s(3.5)."""

import dataclasses
import math
import operator
from typing import Union

from . import _native
from ._errors import InputTypeError, refused


def _number(value):
    """Whole where it is; NumPy's numbers too."""
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise refused("units", f"expected a number, got {type(value).__name__}: {value!r}", InputTypeError) from None
    if isinstance(value, (str, bytes)) or not math.isfinite(number):
        raise refused("units", f"expected a finite number, got {value!r}")
    return number


@dataclasses.dataclass(frozen=True)
class Quantity:
    """A number and its unit; its text is what files and settings take: str(GB(16)) is "16 GB"."""

    number: Union[int, float]
    unit: str

    def __str__(self):
        return f"{self.number!r} {self.unit}"

    def __mul__(self, times):
        return Quantity(_number(self.number * _number(times)), self.unit)

    __rmul__ = __mul__

    def __truediv__(self, parts):
        parts = _number(parts)
        if parts == 0:
            raise refused("units", f"expected a number that is not 0 to divide {self} by")
        return Quantity(_number(self.number / parts), self.unit)


def _unit(name):
    def of(number):
        return Quantity(_number(number), name)

    of.__name__ = of.__qualname__ = name.replace("/", "_per_")
    of.__doc__ = f"So many {name}."
    return of


_UNITS = {unit.__name__: unit for unit in map(_unit, _native.unit_names())}
__all__ = ["Quantity", *_UNITS]
globals().update(_UNITS)
