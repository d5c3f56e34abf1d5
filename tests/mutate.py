#!/usr/bin/env python3
"""Mutants of C++ sources against the tests of their folders; called by mutate.sh, which says how.

Of the copy in build/mutate/source one file is edited, what depends on it is built, and the folder's test programs run
until one fails. Then the objects of the unedited source are put back, so that a mutant costs one compilation.
"""
import argparse
import collections
import dataclasses
import functools
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutate"
SOURCE, BUILD, PRISTINE = WORK / "source", WORK / "build", WORK / "pristine"
SURVIVORS = WORK / "survivors.json"
# Folder -> test programs, the longest matching name; those that need less building first.
PROGRAMS = {
    "models": ["test_models"], "traces": ["test_traces"], "policies": ["test_policies"], "sim": ["test_sim"],
    "sim/cluster": ["test_cluster"], "sim/serving": ["test_sim", "test_simgrid"], "sim/engine": ["test_engine", "test_simgrid"], "sim/store": ["test_store"],
    "sim/sweep": ["test_sweep"]}
# Their files are compiled one by one.
LIBRARIES = ["moelab_base", "moelab_models", "moelab_models_once", "moelab_policies", "moelab_engine", "moelab_sim", "moelab_sim_once", "moelab_store",
             "moelab_sweep"]
SECONDS_TO_BUILD = 900
QUICK_SECONDS = 0.15  # of a test case
TEST_MEMORY = 8 << 30  # bytes of address space: a mutant may ask for any


class Refused(Exception):
    """What the caller asked for cannot be done; the text says what was expected."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    at: int  # offset in the file
    old: str
    new: str
    kind: str


@functools.cache
def text_of(file):
    """As it was when it was first asked for: the checkout may be edited meanwhile."""
    return (ROOT / file).read_text()


# ---- places ----------------------------------------------------------------------------------------------------------

def blank(text, begin, end):
    """Spaces instead of text[begin:end], line ends kept."""
    return text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + text[end:]


def closing(text, at):
    """Where the parenthesis that opens at `at` closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return len(text) - 1


def bare_code(text):
    """The same length with spaces for what is not edited: comments, strings, preprocessor lines, checks, messages."""
    for found in TEXTS.finditer(text):
        whole = found.group().startswith("/")
        text = blank(text, found.start() + (not whole), found.end() - (not whole))
    for found in re.finditer(r"^[ \t]*#.*(?:\\\n.*)*", text, re.M):
        text = blank(text, found.start(), found.end())
    text = re.sub(r"\) (const )?= 0;", lambda pure: " " * len(pure.group()), text)
    for found in re.finditer(r"\b(?:static_assert|assert|check_invariant|std::logic_error)\(", text):
        text = blank(text, found.start(), closing(text, found.end() - 1) + 1)
    return text


TEXTS = re.compile(r"//[^\n]*|/\*.*?\*/"  # comments
                   r'|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"'  # strings, raw ones first
                   r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)  # characters, but not the ' between digits
# Kind, pattern, replacements. Operators stand between spaces, which sets them apart from templates and pointers.
SWAPS = [
    ("relation", r"(?<= )(<=|>=|==|!=|<|>)(?= )", {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}),
    ("arithmetic", r"(?<= )(\+=|-=|\*=|/=|\+|-|\*|/|%)(?= )",
     {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}),
    ("step", r"(\+\+|--)", {"++": "--", "--": "++"}),
    ("logic", r"(?<= )(&&|\|\|)(?= )", {"&&": "||", "||": "&&"}),
    ("extreme", r"\b(?<=std::)(min|max|min_element|max_element|lower_bound|upper_bound|ceil|floor)\b",
     {"min": "max", "max": "min", "min_element": "max_element", "max_element": "min_element", "ceil": "floor",
      "floor": "ceil", "lower_bound": "upper_bound", "upper_bound": "lower_bound"}),
    ("constant", r"\b(true|false)\b", {"true": "false", "false": "true"})]
NUMBER = re.compile(r"(?<![\w.'])(\d[\d']*(?:\.\d*)?(?:[eE][-+]?\d+)?)([uUlLfF]*)(?![\w.'])")
# A statement of its own: it begins with no type, no name of a declared thing, no keyword.
STATEMENT = re.compile(r"(?!(?:return|co_return|throw|using|namespace|case|default|else|if|for|while|do|switch|goto|"
                       r"public|private|protected|struct|class|enum|template|friend|static|const|constexpr|auto|"
                       r"explicit|virtual)\b)"
                       r"(?:co_await |\+\+|--|\*)*[A-Za-z_][^\s(={]*(?: [-+*/|&^%]?= |\(|\{|;)")


def swapped(bare):
    for kind, pattern, replacements in SWAPS:
        for found in re.finditer(pattern, bare):
            line = bare[bare.rfind("\n", 0, found.start()) + 1:found.start()]
            if kind == "arithmetic" and '"' in bare[found.start() - 3:found.end() + 3] or "operator" in line:
                continue  # texts are put together
            if kind == "step" and "for (" in line:
                continue  # never ends: every test notices, at length
            yield found.start(1), found.group(1), replacements[found.group(1)], kind


def constants(bare):
    for found in NUMBER.finditer(bare):
        number, suffix = found.groups()
        for sign in ("+", "-"):
            if not (sign == "-" and float(number.replace("'", "")) == 0):
                one = "1" + (suffix if "." not in number else "")
                yield found.start(), found.group(), f"({found.group()} {sign} {one})", "constant"


def conditions(bare):
    for found in re.finditer(r"\b(?:if|while) \(", bare):
        begin, end = found.end(), closing(bare, found.end() - 1)
        begin += bare[begin:end].rfind("; ") + 2 if "; " in bare[begin:end] else 0
        condition = bare[begin:end]
        if not re.search(r"[^=!<>]=[^=]", condition):
            yield begin, condition, f"!({condition})", "condition"


def statements(bare):
    """Statements between a boundary and their semicolon, also the body of an `if` on its line."""
    for found in re.finditer(r"(?<=[;{}:)])\s+(?=[\w+*-])", bare):
        if not STATEMENT.match(bare, found.end()):
            continue
        end, depth = found.end(), 0
        while end < len(bare) and (bare[end] != ";" or depth):
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(bare[end], 0)
            if depth < 0:
                break
            end += 1
        if end < len(bare) and bare[end] == ";" and bare[end - 1:end] != "}":
            yield found.end(), bare[found.end():end], "", "statement"


def mutants_of(file):
    text = text_of(file)
    bare = bare_code(text)
    places = [*swapped(bare), *constants(bare), *conditions(bare), *statements(bare)]
    found = {}
    for at, old, new, kind in places:
        old = text[at:at + len(old)]  # with its strings
        new = f"!({old})" if kind == "condition" else new
        found[(at, old, new)] = Mutant(file, at, old, new, kind)
    return [found[key] for key in sorted(found)]


# ---- which mutants ---------------------------------------------------------------------------------------------------

def programs_of(file):
    folders = [folder for folder in PROGRAMS if file.startswith(folder + "/")]
    if not folders:
        return []
    programs = PROGRAMS[max(folders, key=len)]
    return programs[:1] if file.endswith(".hpp") else programs  # what includes a header is long to compile


def sources_of(names):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cpp", "*.hpp"], cwd=ROOT, text=True,
                            check=True, capture_output=True).stdout.split("\n")
    files = []
    for name in names:
        path = pathlib.Path(name).resolve()
        if not path.exists() or not path.is_relative_to(ROOT):
            raise Refused(f"{name}: expected a file or folder of {ROOT}")
        inside = path.relative_to(ROOT).as_posix()
        matched = [f for f in listed if (f == inside or f.startswith(inside + "/")) and programs_of(f)]
        if not matched:
            raise Refused(f"{name}: expected sources (.cpp, .hpp) of {', '.join(sorted(PROGRAMS))}")
        files += matched
    return sorted(set(files))


def pick(files, count, seed):
    """`count` mutants, no two in the same line; every kind as likely, so that constants do not crowd out the others."""
    chance = random.Random(seed)
    kinds = collections.defaultdict(list)
    for file in files:
        for mutant in mutants_of(file):
            kinds[mutant.kind].append(mutant)
    for places in kinds.values():
        chance.shuffle(places)
    picked, lines = [], set()
    while len(picked) < count and any(kinds.values()):
        mutant = kinds[chance.choice(sorted(kind for kind in kinds if kinds[kind]))].pop()
        if (mutant.file, line_of(mutant)) not in lines:
            lines.add((mutant.file, line_of(mutant)))
            picked.append(mutant)
    return sorted(picked, key=lambda m: (m.file, m.at))


def line_of(mutant):
    return text_of(mutant.file).count("\n", 0, mutant.at) + 1


def edited(mutant):
    text = text_of(mutant.file)
    if text[mutant.at:mutant.at + len(mutant.old)] != mutant.old:
        raise Refused(f"{mutant.file} has changed: expected '{mutant.old}' at its character {mutant.at}")
    return text[:mutant.at] + mutant.new + text[mutant.at + len(mutant.old):]


def diff(mutant):
    """The lines that the edit changes, as - and +."""
    text = text_of(mutant.file)
    first, last = text.rfind("\n", 0, mutant.at) + 1, text.find("\n", mutant.at + len(mutant.old))
    before = text[first:last]
    after = text[first:mutant.at] + mutant.new + text[mutant.at + len(mutant.old):last]
    return "\n".join([*("-" + line for line in before.split("\n")), *("+" + line for line in after.split("\n"))])


# ---- building and running --------------------------------------------------------------------------------------------

def run(words, seconds, log, environment=None, memory=resource.RLIM_INFINITY):
    """Exit status, or None where it ran longer; all that it started is ended. Seconds are the processor's, so that a
    busy machine ends nothing; ten times as many on the clock, for what waits."""
    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with open(log, "wb") as out:
        process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=bound,
                                   env={**os.environ, **(environment or {})})
        try:
            status = process.wait(10 * seconds)
            return None if status == -signal.SIGXCPU else status
        except subprocess.TimeoutExpired:
            return None
        finally:
            for stop in (signal.SIGTERM, signal.SIGKILL):  # ninja ends its compilers on the first
                try:
                    os.killpg(process.pid, stop)
                    process.wait(3)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass


def copy_sources():
    """The checkout as it is; what has not changed keeps its time, so that it is not compiled again."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, text=True, check=True,
                            capture_output=True).stdout.split("\0")
    names = {name for name in listed if name and (ROOT / name).is_file()}
    for name in names:
        copy, text = SOURCE / name, (ROOT / name).read_bytes()
        if copy.is_file() and copy.read_bytes() == text:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(text)
        shutil.copymode(ROOT / name, copy)
    for copy in SOURCE.rglob("*"):
        if copy.is_file() and copy.relative_to(SOURCE).as_posix() not in names:
            copy.unlink()


def configure():
    compiler = "clang++" if shutil.which("clang++") else "g++"
    linker = next((name for name in ("lld", "gold") if shutil.which("ld." + name)), None)
    options = {"CMAKE_BUILD_TYPE": "Mutate", "CMAKE_CXX_COMPILER": compiler,
               "CMAKE_CXX_FLAGS": "-O1 -w -D_GLIBCXX_ASSERTIONS",  # -w: a mutant may leave something unused
               "CMAKE_EXE_LINKER_FLAGS": f"-fuse-ld={linker}" if linker else "", "CMAKE_UNITY_BUILD": "ON",
               "CMAKE_PROJECT_INCLUDE": str(WORK / "options.cmake"), "CMAKE_EXPORT_COMPILE_COMMANDS": "OFF",
               "MOELAB_BENCH": "OFF", "MOELAB_EXPERIMENTS": "OFF", "MOELAB_WITH_CUDA": "OFF",
               "MOELAB_CHECK_INVARIANTS": "ON"}
    # Tests are compiled many at once; what is edited file by file, so that a mutant is one file to compile.
    (WORK / "options.cmake").write_text(
        f"cmake_language(DEFER CALL set_target_properties {' '.join(LIBRARIES)} PROPERTIES UNITY_BUILD OFF)\n")
    words = ["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", *(f"-D{key}={value}" for key, value in options.items())]
    if run(words, SECONDS_TO_BUILD, WORK / "configure.log") != 0:
        raise Refused(f"cmake failed on the unedited sources: see {WORK / 'configure.log'}")


def build(programs, seconds=SECONDS_TO_BUILD):
    return run(["ninja", "-C", BUILD, "-j1", *programs], seconds, WORK / "build.log")


def objects():
    return {path.relative_to(BUILD).as_posix(): path.stat() for path in BUILD.rglob("*.o")}


def keep_objects():
    """Copies of the unedited sources' objects."""
    for name, stat in objects().items():
        copy = PRISTINE / name
        if not copy.is_file() or copy.stat().st_mtime_ns != stat.st_mtime_ns:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(BUILD / name, copy)


def put_back(file, stat, programs):
    """Objects first and the source last: where this is interrupted, the next call compiles it again."""
    for stale in [*BUILD.rglob("*.a"), *(path for name in programs for path in BUILD.rglob(name))]:
        if stale.is_file() and stale.stat().st_mtime_ns > stat.st_mtime_ns:
            stale.unlink()
    for name, object_stat in objects().items():
        copy = PRISTINE / name
        if copy.is_file() and copy.stat().st_mtime_ns != object_stat.st_mtime_ns:
            shutil.copy2(copy, BUILD / name)
    (SOURCE / file).write_text(text_of(file))
    os.utime(SOURCE / file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def program_path(program):
    return next(path for path in BUILD.rglob(program) if path.is_file())


def run_test(program, seconds, *options):
    scratch = WORK / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    return run([program_path(program), "--abort", *options], seconds, WORK / "test.log", {"TMPDIR": str(scratch)},
               TEST_MEMORY)


def quick_cases(program, log):
    """A file that names the program's quick cases: they kill most mutants."""
    seconds = collections.Counter()
    for line in log.splitlines():
        if found := re.match(r"(\d+\.\d+) s: (.*)", line):
            seconds[found.group(2).strip()] += float(found.group(1))
    listed = subprocess.run([program_path(program), "--list-test-names-only"], text=True, capture_output=True,
                            check=False)
    names = [name.strip() for name in listed.stdout.splitlines() if name.strip()]
    file = WORK / f"{program}.quick"
    quick = (re.sub(r"([,\[])", r"\\\1", name) for name in names if seconds[name] < QUICK_SECONDS)
    file.write_text("".join(name + "\n" for name in quick))
    return file


def measure(programs):
    """Program -> its runs, each options and the seconds after which it is ended: the quick cases, then all. All pass
    on the unedited sources."""
    runs = {}
    for program in programs:
        runs[program] = []
        log = ""
        for options in ([], ["-f"]):
            options += [quick_cases(program, log)] if options else ["-d", "yes"]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            if run_test(program, SECONDS_TO_BUILD, *options) != 0:
                raise Refused(f"{program} fails on the unedited sources: see {WORK / 'test.log'}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            log = (WORK / "test.log").read_text(errors="replace")
            runs[program].insert(0, (options, 10 + 3 * taken))
            print(f"{program}: {'quick' if len(runs[program]) > 1 else 'all'} cases pass in {taken:.1f} s", flush=True)
    return runs


def judge(mutant, runs):
    """'uncompiled', 'killed', 'killed by timeout' or 'survived'."""
    stat = (SOURCE / mutant.file).stat()
    programs = [p for p in programs_of(mutant.file) if p in runs]
    (SOURCE / mutant.file).write_text(edited(mutant))
    try:
        for program in programs:
            if (built := build([program])) != 0:
                return "uncompiled" if built else "killed by timeout"
            for options, seconds in runs[program]:
                if (status := run_test(program, seconds, *options)) != 0:
                    return "killed" if status else "killed by timeout"
        return "survived"
    finally:
        put_back(mutant.file, stat, programs)


# ---- report ----------------------------------------------------------------------------------------------------------

def folder_of(file):
    parts = file.split("/")
    return "/".join(parts[:2]) if parts[0] == "sim" else parts[0]


def report(outcomes):
    survivors = [mutant for mutant, outcome in outcomes if outcome == "survived"]
    for mutant in survivors:
        print(f"\nsurvived: {mutant.file}:{line_of(mutant)} ({mutant.kind})\n{diff(mutant)}")
    print(f"\n{'folder':<14}{'mutants':>8}{'compiled':>9}{'killed':>8}{'survived':>9}{'score':>7}")
    folders = collections.defaultdict(list)
    for mutant, outcome in outcomes:
        folders[folder_of(mutant.file)].append(outcome)
        folders["all"].append(outcome)
    for folder in [*sorted(f for f in folders if f != "all"), *(["all"] if folders else [])]:
        results = folders[folder]
        compiled = sum(outcome != "uncompiled" for outcome in results)
        killed = sum(outcome.startswith("killed") for outcome in results)
        score = f"{100 * killed / compiled:.0f} %" if compiled else "-"
        print(f"{folder:<14}{len(results):>8}{compiled:>9}{killed:>8}{compiled - killed:>9}{score:>7}")
    SURVIVORS.write_text(json.dumps([dataclasses.asdict(mutant) for mutant in survivors], indent=1) + "\n")


def parse():
    whole = lambda text: int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None
    parser = argparse.ArgumentParser(prog="tests/mutate.sh", add_help=False)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", default="20")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    for name in ("count", "seed"):
        value = whole(getattr(arguments, name))
        if value is None:
            raise Refused(f"--{name} {getattr(arguments, name)}: expected a whole number, such as 20")
        setattr(arguments, name, value)
    if arguments.again == bool(arguments.names):
        raise Refused("expected files or folders, such as sim/serving, or --again, and not both")
    return arguments


def chosen(arguments):
    if not arguments.again:
        return pick(sources_of(arguments.names), arguments.count, arguments.seed)
    if not SURVIVORS.is_file():
        raise Refused(f"--again: expected {SURVIVORS}, which a run over files writes")
    return [Mutant(**fields) for fields in json.loads(SURVIVORS.read_text())]


def campaign(mutants):
    programs = list(dict.fromkeys(program for mutant in mutants for program in programs_of(mutant.file)))
    print(f"{len(mutants)} mutants; building {' '.join(programs)}", flush=True)
    copy_sources()
    configure()
    if build(programs, 6 * SECONDS_TO_BUILD) != 0:
        raise Refused(f"the unedited sources do not build: see {WORK / 'build.log'}")
    keep_objects()
    runs = measure(programs)
    outcomes = []
    try:
        for number, mutant in enumerate(mutants, 1):
            began = time.monotonic()
            outcomes.append((mutant, judge(mutant, runs)))
            print(f"{number}/{len(mutants)} {outcomes[-1][1]}: {mutant.file}:{line_of(mutant)} {mutant.kind} "
                  f"({time.monotonic() - began:.1f} s)", flush=True)
    except KeyboardInterrupt:
        print("interrupted: what follows is of the mutants so far")
    report(outcomes)


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    for stop in (signal.SIGINT, signal.SIGTERM):  # also where a shell in the background has them ignored
        signal.signal(stop, interrupt)
    try:
        arguments = parse()
        mutants = chosen(arguments)
        if arguments.list:
            for mutant in mutants:
                print(f"{mutant.file}:{line_of(mutant)} ({mutant.kind})\n{diff(mutant)}")
            return 0
        WORK.mkdir(parents=True, exist_ok=True)
        campaign(mutants)
    except Refused as refusal:
        print(f"tests/mutate.sh: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
