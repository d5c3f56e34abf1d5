"""The program of the package, for what it does and the compiled module does not: its JSON, its errors as InputError."""

import contextlib
import json
import os
import re
import subprocess
import tempfile

from . import _progress
from ._errors import InputError

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "moelab")
_PLACED = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?: (?P<what>.*)", re.DOTALL)
_PROGRESS = "moelab: progress: "  # lines of what takes long, which say nothing of what went wrong
_NOTHING_FITS = "moelab: nothing fits: "
_TICK_S = 0.1


def _problem(line):
    """(file, line, column, what, text), the place where the line has one."""
    placed = _PLACED.fullmatch(line)
    if not placed:
        return "", 0, 0, line, line
    return placed["file"], int(placed["line"]), int(placed["column"] or 0), placed["what"], line


def _refused(said):
    lines = [line[len("moelab: "):] if line.startswith("moelab: ") else line for line in said.splitlines()]
    return InputError([_problem(line) for line in lines if line and line != "Run with --help for more information."])


def _end(process, words):
    """(status, output, errors); Ctrl-C ends the program."""
    with _progress.shown(words[0]) as tell:
        while True:
            try:
                output, errors = process.communicate(timeout=_TICK_S)
                return process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")
            except subprocess.TimeoutExpired:
                tell(0, 0)


class Call:
    """A call of the program. Documents that are no files are written to files of its own while it lives, and what the program
    says of those files is said of the arguments."""

    def __init__(self):
        self._stack = contextlib.ExitStack()
        self._folder = None
        self._names = {}  # path: what the argument is called

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stack.close()

    def file(self, text, what):
        """The path of a file with this text."""
        if self._folder is None:
            self._folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="moelab-"))
        path = os.path.join(self._folder, f"{len(self._names)}.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self._names[path] = what
        return path

    def text(self, words, also=()):
        """What `moelab WORDS...` prints. Raises InputError with what is wrong; `also`: statuses that are no error."""
        try:
            process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
        except ValueError as error:  # a NUL in a word
            raise InputError(f"{words[0]}: {error}") from None
        except OSError as error:
            raise RuntimeError(f"{PROGRAM}: {error.strerror}; install the package moelab again") from None
        with process:
            try:
                status, output, errors = _end(process, words)
            except BaseException:
                process.kill()
                process.wait()  # which `with` leaves out after Ctrl-C
                raise
        errors = "".join(line for line in errors.splitlines(keepends=True) if not line.startswith(_PROGRESS))
        for path, what in self._names.items():
            output, errors = output.replace(path, what), errors.replace(path, what)
        fits_not = status == 1 and any(line.startswith(_NOTHING_FITS) for line in errors.splitlines())
        if status == 0 or status in also and output and (status != 1 or fits_not):
            return output
        if status == 2 or fits_not:
            raise _refused(errors.replace(_NOTHING_FITS, "moelab: "))
        raise RuntimeError(f"moelab {words[0]}: {errors.strip() or f'ended with status {status}'}")

    def json(self, words, also=()):
        return json.loads(self.text([*words, "--format", "json"], also))
