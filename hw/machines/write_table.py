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
import tempfile

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
    with tempfile.NamedTemporaryFile("w", dir=FOLDER, delete=False) as file:
        file.write(f"{before}{BEGIN}\n{done.stdout}\n{END}{after}")
    os.chmod(file.name, 0o644)
    os.replace(file.name, page)


if __name__ == "__main__":
    main()
