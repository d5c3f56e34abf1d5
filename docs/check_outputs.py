#!/usr/bin/env python3
"""Runs the commands that pages show, as they stand there, and says which lines of the outputs shown behind them the program no
longer prints. `...` stands for what is left out.

usage: docs/check_outputs.py MOELAB [PAGE...]     pages: README.md and docs/*.md, which take ten minutes; exit status 1 where
                                                 a line is not printed
Example: docs/check_outputs.py build/release/cli/moelab docs/scenarios.md
"""
import difflib
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
# Measurements of this machine, and commands that need more than one.
NOT_RUN = re.compile(r"moelab (calibrate|validate|bench|pack) |.* --cluster ")


def blocks_of(page):
    """(number of the first line, lines) of each fenced block that is of no language."""
    number = begin = 0
    lines = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if lines is None:
                lines, begin, is_plain = [], number + 1, line == "```"
            else:
                if is_plain:
                    yield begin, lines
                lines = None
        elif lines is not None:
            lines.append(line)


def write_files(page, folder):
    """The files that a page shows: blocks of YAML, each under the name that it gives itself."""
    for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        named = re.match(r"name: (\S+)", text)
        if named:
            (folder / f"{named[1]}.yaml").write_text(text)


def output_of(moelab, line, folder):
    words = shlex.split(line, comments=True)[1:]
    target = None
    if len(words) > 2 and words[-2] == ">":
        target, words = folder / words[-1], words[:-2]
    done = subprocess.run([moelab, *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{line}\n  {done.stderr.strip()}")
        sys.exit(1)
    if target:
        target.write_text(done.stdout)
    return done.stdout.splitlines()


def missing_lines(moelab, page, folder):
    """What is shown and not printed: (place, line, the printed line that is most like it)."""
    printed = None
    for begin, lines in blocks_of(page):
        commands = [line for line in lines if line.startswith("moelab ")]
        if commands:
            runs = [line for line in commands if not NOT_RUN.match(line)]
            printed = [one for line in runs for one in output_of(moelab, line, folder)] if runs else None
            continue
        for offset, line in enumerate(lines if printed else []):
            if line.strip() in ("", "...") or line in printed:
                continue
            like = difflib.get_close_matches(line, printed, 1, 0)
            yield f"{page.relative_to(SOURCE)}:{begin + offset}", line, like[0] if like else ""


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    moelab = pathlib.Path(sys.argv[1]).resolve()
    pages = [pathlib.Path(name).resolve() for name in sys.argv[2:]]
    wrong = 0
    for page in pages or [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "out").mkdir()
            for shown in ("experiments", "hw"):
                (folder / shown).symlink_to(SOURCE / shown)
            write_files(page, folder)
            for place, line, like in missing_lines(moelab, page, folder):
                wrong += 1
                print(f"{place}: not printed\n  shown  {line}\n  prints {like}", flush=True)
    print(f"{wrong} lines are not what the program prints")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
