"""What the package's functions return: the program's JSON as a mapping, with its table, its picture and its answer."""

import difflib
import html

from . import _views
from ._errors import InputError, refused


class Answer(dict):
    """The fields of an answer; its text is the sentences, fit for a terminal whatever names are in them."""

    def __str__(self):
        return "".join(c if c == "\n" or c.isprintable() else "?" for c in self.get("text", "").rstrip("\n"))


def _needs(module, extra):
    """A package that tables or pictures need."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}; expected it installed: pip install 'moelab[{extra}]'") from error


class Figures(dict):
    """What `moelab COMMAND --format json` prints, as a mapping, and the table and the picture of it.

    Of a run of one system the mapping is that system's result, and `systems` a list of it; of several it has "systems" and
    "answer".
    """

    def __init__(self, content, command):
        super().__init__(content)
        self._command = command

    def __reduce__(self):
        return type(self), (dict(self), self._command)

    def copy(self):
        return type(self)(self, self._command)

    def __missing__(self, key):
        if key == "systems" and self._command == "run":
            return self.systems
        if isinstance(key, int) and self.systems:  # several results, as a list has them
            return self.systems[key]
        known = ", ".join(map(repr, self))
        several = "; each of its systems has its own: .systems[0]" if self._command == "run" and "systems" in self else ""
        raise KeyError(f"{key!r}: {self._command} has {known}{several}")

    @property
    def systems(self):
        """What there is of each system, a list; empty of a call that is not of systems."""
        if self._command == "run" and "systems" not in self:
            return [dict(self)]
        return list(self.get("systems", []))

    @property
    def answer(self):
        """The answer's fields, whose str() is its sentences; None of a call that has none."""
        return Answer(self["answer"]) if self.get("answer") else None

    def frame(self):
        """A pandas DataFrame: of a run a row a system, of a search or a load curve a row a point; columns say their units."""
        return _needs("pandas", "pandas").DataFrame(_views.rows(self._command, self))

    def plot(self, y=None, ax=None):
        """Draws a column of frame() with matplotlib: a curve where something was varied, else bars. Means over seeds.

        y: the column; None: what the command is about, such as tpot_s. ax: axes to draw on; None: new ones. Returns the axes.
        """
        frame = self.frame()
        view = _views.view(self._command, self)
        y = view.y if y is None else y
        numbers = [name for name in frame.columns if frame[name].dtype.kind in "iuf"]
        if y is None or frame.empty:
            raise InputError(f"{self._command} has nothing to draw; .frame() has its table")
        if y not in numbers:
            near = difflib.get_close_matches(str(y), numbers, 1)
            hint = f" (did you mean '{near[0]}'?)" if near else f": {', '.join(numbers)}"
            raise refused("y", f"expected a column of numbers, got {y!r}{hint}")
        if ax is None:
            ax = _needs("matplotlib.pyplot", "plot").subplots()[1]
        return _views.draw(view, self, frame, y, ax)

    def _repr_html_(self):
        """The answer, and the table as the report's page has it."""
        said = "".join(f"<p>{html.escape(line)}</p>" for line in str(self.answer or "").splitlines())
        return said + _views.html_table(self._command, self)
