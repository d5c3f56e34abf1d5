#!/usr/bin/env python3
"""Counts the instructions of fixed runs (callgrind) and compares them with the table beside it, instructions.csv.

usage: instruction_counts.py check [--build build/release] [--run NAME ...]
       instruction_counts.py update [--build build/release] [--run NAME ...] [--why TEXT]

check   exit status 1 where a run has become more than 5 % longer or shorter, with the functions that differ most; 77, with the
        reason, where counts cannot be compared: no valgrind, another compiler or processor than the table's
update  writes the tables. A run that has become more than 5 % longer needs --why, which the table keeps

Runs use one processor, so that what is shared among threads is the same on every machine.
"""
import argparse
import csv
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TABLE = FOLDER / "instructions.csv"  # a run: its command, instructions, compiler and processor, why it last grew
FUNCTIONS = FOLDER / "instructions_by_function.csv"  # of each run, those of functions that take LEAST_SHARE and more
TABLE_COLUMNS = ["run", "command", "instructions", "compiler", "processor", "why"]
FUNCTION_COLUMNS = ["run", "function", "instructions"]
TOLERANCE = 0.05
LEAST_SHARE = 0.003
SHOWN = 8  # functions, of those that differ
SKIPPED = 77


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write(path, columns, rows):
    """Atomically."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(temporary, path)


def processor():
    """What code is chosen by: the architecture, and on x86-64 whether it has AVX2."""
    machine = platform.machine()
    if machine != "x86_64":
        return machine
    wide = re.search(r"^flags\s*:.*\bavx2\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return machine + (" avx2" if wide else "")


def compiler_of(build):
    """That of a build folder, as CMake found it: its kind and version."""
    found = sorted(build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"))
    if not found:
        sys.exit(f"{build}: expected a build folder: cmake --preset release")
    text = found[-1].read_text()
    return " ".join(re.search(rf'CMAKE_CXX_COMPILER_{what} "(.*)"', text)[1] for what in ("ID", "VERSION"))


def not_comparable(rows, compiler):
    """Why these rows' counts cannot be compared here; None: they can."""
    if shutil.which("valgrind") is None:
        return "there is no valgrind (./install_dependencies.sh test installs it)"
    for row in rows:
        for what, here in (("compiler", compiler), ("processor", processor())):
            if row[what] != here:
                return f"{TABLE.name} is of {what} '{row[what]}', and here it is '{here}'"
    return None


def functions_of(profile):
    """A callgrind profile's instructions by function, without those of what it calls."""
    names, counts, function, skip = {}, {}, None, False
    for line in profile:
        if line.startswith("fn="):
            number, _, name = line[3:].strip().partition(" ")
            function = names.setdefault(number, re.sub(r" \[clone.*\]|'\d+$", "", name))
        elif line.startswith("calls="):
            skip = True  # the line that follows is of the function that is called
        elif line[:1] in "0123456789+-*":
            if not skip:
                counts[function] = counts.get(function, 0) + int(line.split()[1])
            skip = False
        else:
            number, _, name = line.partition("=")[2].strip().partition(" ")
            if line.startswith("cfn=") and name:  # a name may first come where it is called
                names.setdefault(number, re.sub(r" \[clone.*\]|'\d+$", "", name))
    return counts


def count(program, row):
    """The run's instructions by function. Exits where the run fails."""
    arguments = shlex.split(row["command"])
    assert arguments[0] == "moelab", row
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "configs").symlink_to(FOLDER.parent / "configs")
        profile = Path(folder, "profile")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", program, *arguments[1:]]
        one_processor = {own_processor(row["run"])}
        ended = subprocess.run(command, cwd=folder, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, text=True,
                               capture_output=True, preexec_fn=lambda: os.sched_setaffinity(0, one_processor))
        if ended.returncode != 0:
            sys.exit(f"{row['run']}: '{row['command']}' ended with {ended.returncode}: {ended.stderr[-2000:]}")
        with open(profile) as lines:
            return functions_of(lines)


def own_processor(run):
    """Of those there are, so that runs beside each other are mostly not on the same one."""
    there = sorted(os.sched_getaffinity(0))
    return there[sum(run.encode()) % len(there)]


def differences(before, least, now):
    """The functions whose instructions differ most, a line each. Those that `before` does not have took fewer than `least`."""
    grown = {name: now.get(name, 0) - before.get(name, least) for name in before.keys() | now.keys()
             if name in before or now[name] > least}
    for name in sorted(grown, key=lambda name: -abs(grown[name]))[:SHOWN]:
        was = f"{before[name] / 1e6:.1f} M" if name in before else f"below {least / 1e6:.1f} M"
        yield f"  {grown[name] / 1e6:+9.1f} M  {name} (was {was})"


def differences_from_table(row, now):
    before = {f["function"]: int(f["instructions"]) for f in read(FUNCTIONS) if f["run"] == row["run"]}
    return "\n".join(differences(before, LEAST_SHARE * int(row["instructions"]), now))


def check(rows, program, compiler):
    reason = not_comparable(rows, compiler)
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    failed = False
    for row in rows:
        now = count(program, row)
        was, total = int(row["instructions"]), sum(now.values())
        change = total / was - 1
        print(f"{row['run']}: {total / 1e6:.1f} M instructions, {TABLE.name} says {was / 1e6:.1f} M ({change:+.2%}), "
              f"{row['compiler']}, {row['processor']}")
        if abs(change) <= TOLERANCE:
            continue
        failed = True
        again = f"bench/{Path(__file__).name} update --run {row['run']}"
        advice = (f"make it cheaper again, or say why it may cost more: {again} --why TEXT" if change > 0 else
                  f"that is good news; keep it: {again}")
        print(f"{row['run']}: more than {TOLERANCE:.0%} {'more' if change > 0 else 'fewer'} instructions: {advice}")
        print(differences_from_table(row, now))
    return 1 if failed else 0


def update(chosen, program, compiler, why):
    rows, functions = read(TABLE), read(FUNCTIONS) if FUNCTIONS.exists() else []
    for row in rows:
        if row["run"] not in chosen:
            continue
        now = count(program, row)
        was, total = int(row["instructions"] or 0), sum(now.values())
        comparable = was > 0 and row["compiler"] == compiler and row["processor"] == processor()
        if comparable and total > was * (1 + TOLERANCE):
            if not why:  # the table stays as it was
                print(differences_from_table(row, now))
                sys.exit(f"{row['run']}: {total / was - 1:+.1%} instructions: say why with --why TEXT")
            row["why"] = f"{total / was - 1:+.1%}: {why}"
        print(f"{row['run']}: {total / 1e6:.1f} M instructions" + (f", were {was / 1e6:.1f} M" if was else ""))
        row.update(instructions=total, compiler=compiler, processor=processor())
        functions = [f for f in functions if f["run"] != row["run"]]
        functions += [{"run": row["run"], "function": name, "instructions": n}
                      for name, n in sorted(now.items(), key=lambda item: -item[1]) if n >= LEAST_SHARE * total]
    order = {row["run"]: place for place, row in enumerate(rows)}
    write(FUNCTIONS, FUNCTION_COLUMNS, sorted(functions, key=lambda f: order[f["run"]]))
    write(TABLE, TABLE_COLUMNS, rows)
    return 0


def main():
    known = [row["run"] for row in read(TABLE)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "update"])
    parser.add_argument("--build", type=Path, default=FOLDER.parent / "build" / "release", help="of the preset release")
    parser.add_argument("--run", action="append", choices=known, help="only this one (may be given several times)")
    parser.add_argument("--why", default="", help="why what has become longer has")
    asked = parser.parse_args()
    chosen, program, compiler = asked.run or known, asked.build.resolve() / "cli" / "moelab", compiler_of(asked.build)
    if not program.exists():
        sys.exit(f"{program} is not there: cmake --build --preset release --target moelab")
    if asked.what == "update":
        return update(chosen, program, compiler, asked.why)
    return check([row for row in read(TABLE) if row["run"] in chosen], program, compiler)


sys.exit(main())
