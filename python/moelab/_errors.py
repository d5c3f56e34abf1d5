"""What moelab raises."""

from typing import NamedTuple


class Problem(NamedTuple):
    """One thing wrong with an input; `line` and `column` count from 1, 0 means no particular place."""

    file: str
    line: int
    column: int
    what: str
    text: str

    def __str__(self):
        return self.text


class InputError(ValueError):
    """An input that cannot be used. `problems` holds everything that is wrong with it; made of a text, that alone."""

    def __init__(self, problems):
        if isinstance(problems, str):
            problems = [("", 0, 0, problems, problems)]
        self.problems = [Problem(*p) for p in problems]
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self):
        return type(self), (self.problems,)


class InputTypeError(InputError, TypeError):
    """A value of a kind that stands for nothing here."""


def refused(what, why, kind=InputError):
    """The error about the argument `what`."""
    return kind([(what, 0, 0, why, f"{what}: {why}")])
