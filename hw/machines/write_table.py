#!/usr/bin/env python3
"""Writes the tables of hw/machines/README.md anew, from the records that lie beside it. Records that cannot be read leave the page
as it is.

usage: hw/machines/write_table.py MOELAB
Example: hw/machines/write_table.py build/release/cli/moelab
"""
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- records -->\n", "<!-- end of records -->\n"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    done = subprocess.run([sys.argv[1], "records", FOLDER, "--format", "markdown"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    page = FOLDER / "README.md"
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{page}: expected the lines '{BEGIN.strip()}' and '{END.strip()}', between which the tables stand")
    new = page.with_suffix(".md.new")
    try:
        new.write_text(f"{before}{BEGIN}\n{done.stdout}\n{END}{after}")
        os.replace(new, page)
    finally:
        new.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
