#!/usr/bin/env python3
"""Hostile inputs: files and command lines that are nearly right, given to the program itself under limits of
time and memory. See tests/hostile.sh for the usage and tests/README.md for what it found."""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_inputs import KINDS, Seeds  # noqa: E402
from hostile_mutations import hostile_value, mutated  # noqa: E402

SECONDS = 20  # of processor time of a case; the seeds take a tenth of one
WALL_SECONDS = 6 * SECONDS  # of one that waits, or shares the machine with other programs
MEMORY = 2 << 30  # bytes of address space, or with sanitizers of resident memory
FILE_SIZE = 256 << 20
MOST_SAVED = 3  # findings of one kind and reason
SAY_EVERY = 60  # seconds
ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
REPORT = re.compile(rb"(Sanitizer|runtime error:|SUMMARY: |Assertion|terminate called|invariant)[^\n]*")
# What may be below 0 among results: what a change would save, and differences of two runs.
SIGNED = re.compile(r"saved|change|differ|delta|gain|moved|slope|coefficient|drift|correlation|error|log")
MEASURED = re.compile(r"(_s|_bytes|_per_s|_ms|seconds|bytes)$")


def is_sanitized(program):
    """Whether the program is built with the address sanitizer, which wants the whole address space."""
    with open(program, "rb") as file:
        return b"__asan_init" in file.read()


class Runner:
    """Runs the program in a folder of a case's own."""

    def __init__(self, program):
        self.program = str(program)
        self.sanitized = is_sanitized(program)
        self.environment = {
            "PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "TMPDIR": "/tmp",
            "ASAN_OPTIONS": f"hard_rss_limit_mb={MEMORY >> 20}:detect_leaks=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}

    def limit(self):
        if not self.sanitized:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))

    def __call__(self, arguments, folder, stdin=b"", seconds=WALL_SECONDS):
        """(status, output, errors); the status is "hang" where time ran out, negative where a signal ended it."""
        process = subprocess.Popen([self.program, *arguments], cwd=folder, env=self.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=self.limit, start_new_session=True)
        try:
            out, err = process.communicate(stdin, timeout=seconds)
            return "hang" if process.returncode == -signal.SIGXCPU else process.returncode, out, err
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return "hang", out, err


def wrong_numbers(node, path=""):
    """Paths of numbers that are not finite, and of times and sizes below 0."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from wrong_numbers(value, f"{path}/{key}")
    elif isinstance(node, list):
        for value in node:
            yield from wrong_numbers(value, path)
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        if not math.isfinite(node):
            yield f"{path} is {node}"
        elif node < 0 and MEASURED.search(path) and not SIGNED.search(path):
            yield f"{path} is below 0"


def wrong_output(out, is_json):
    """What is wrong with what a run that succeeded printed; "" for nothing."""
    if not is_json:
        found = re.search(rb"(?<![\w.-])[-+]?(nan|inf)(?![\w.-])", out)
        return f"prints {found.group().decode()}" if found else ""
    try:
        results = json.loads(out)
    except ValueError as error:
        return f"prints no JSON: {str(error)[:40]}"
    return next(iter(wrong_numbers(results)), "")


class Case:
    """One input: files in a folder, a command line, and what is to become of an output file."""

    def __init__(self, seeds, seed, number):
        self.random = random.Random(f"{seed}:{number}")
        self.kind = self.random.choices(KINDS, [k.weight for k in KINDS])[0]
        self.files = dict(seeds.files[self.kind.name])
        self.arguments = list(self.random.choice(self.kind.commands))
        self.stdin = b""
        if self.kind.values:
            at = self.random.randrange(len(self.kind.values))
            option, value = self.kind.values[at]
            self.arguments += [option, os.fsdecode(hostile_value(self.random, value))]
        for name in self.random.sample(self.kind.hostile, min(len(self.kind.hostile), 1)):
            others = [f for n, f in self.files.items() if n != name] + seeds.any(self.random)
            self.files[name] = mutated(self.random, name, self.files[name], others)

    def write(self, folder):
        for name, content in self.files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def wrong(self, runner, folder):
        """What is wrong with how the program takes it; "" for nothing."""
        status, out, err = runner(self.arguments, folder, self.stdin)
        report = REPORT.search(out + err)
        if status == "hang":
            return f"hangs: {SECONDS} s of processor time, or {WALL_SECONDS} s"
        if report and (status not in (0, 1, 2) or b"Sanitizer" in report.group() or b"runtime" in report.group()):
            return re.sub(r"==\d+==|0x[0-9a-f]+|\d+", "N", report.group().decode(errors="replace"))[:120]
        if status not in (0, 1, 2):
            return f"ends with {status}"
        if found := CONTROL.search(out + err):
            return f"prints control character {found.group()!r}"
        if status == 2 and not err.strip():
            return "refuses without a word"
        return self.wrong_files(status, folder) or (status == 0 and wrong_output(out, "json" in self.arguments)) or ""

    def wrong_files(self, status, folder):
        left = {str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*") if p.is_file()} - set(self.files)
        if status == 0 or self.kind.keeps:
            return ""
        return f"leaves {re.sub(r'[0-9a-zA-Z]{6,}', 'N', sorted(left)[0])} behind" if left else ""

    def save(self, place, program, why):
        self.write(place)
        command = shlex.join([*self.arguments])
        pathlib.Path(place, "replay.sh").write_text(
            f"#!/bin/sh\n# {why!a}\ncd \"$(dirname \"$0\")\" && exec ${{1:-{shlex.quote(program)}}} {command}\n",
            errors="surrogateescape")


class Campaign:
    def __init__(self, options, runner, seeds):
        self.options, self.runner, self.seeds = options, runner, seeds
        self.counts, self.findings = collections.Counter(), collections.Counter()
        self.folder = ROOT / "build" / "hostile"

    def one(self, number):
        case = Case(self.seeds, self.options.seed, number)
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            case.write(folder)
            return case, case.wrong(self.runner, folder)

    def take(self, number, case, wrong):
        self.counts[case.kind.name] += 1
        if not wrong:
            return
        key = (case.kind.name, wrong)
        self.findings[key] += 1
        if self.findings[key] > MOST_SAVED:
            return
        place = self.folder / f"{case.kind.name}-{self.options.seed}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        case.save(place, self.runner.program, wrong)
        print(f"FINDING {case.kind.name}: {wrong}\n  sh {place}/replay.sh [PROGRAM]", flush=True)

    def run(self):
        end = time.monotonic() + 60 * self.options.minutes
        number, waiting, said = self.options.first, {}, time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            while waiting or time.monotonic() < end:
                while len(waiting) < 2 * self.options.jobs and time.monotonic() < end:
                    waiting[pool.submit(self.one, number)] = number
                    number += 1
                done, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    self.take(waiting.pop(future), *future.result())
                if time.monotonic() > said + SAY_EVERY:
                    said = time.monotonic()
                    print(f"{sum(self.counts.values())} cases, {sum(self.findings.values())} findings, "
                          f"{max(0, (end - said) / 60):.0f} minutes left", file=sys.stderr, flush=True)
        return number

    def summary(self, number):
        for name, count in sorted(self.counts.items()):
            found = sum(n for (kind, _), n in self.findings.items() if kind == name)
            print(f"{name:12} {count:7} cases {found:4} findings")
        print(f"{sum(self.counts.values())} cases (seed {self.options.seed}, numbers {self.options.first} to {number - 1}), "
              f"{sum(self.findings.values())} findings of {len(self.findings)} sorts")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    runner = Runner(options.program.resolve())
    with tempfile.TemporaryDirectory(prefix="hostile-seeds-") as folder:
        seeds = Seeds(runner, pathlib.Path(folder), ROOT)
    campaign = Campaign(options, runner, seeds)
    campaign.summary(campaign.run())
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main())
