#!/usr/bin/env python3
"""The pages of the families of policies, policies/FAMILY/README.md, and the walkthrough beside the caches'.

usage: policy_pages.py names SOURCE_DIR
           each family has a page, which policies/README.md links; it names every method of the family's class in Python,
           every value that the class may set, and every function of its interface in C++; what it links is there
       policy_pages.py program SOURCE_DIR PROGRAM [PAGE...]
           runs the blocks of commands of the pages, but those of Python
       policy_pages.py python SOURCE_DIR [PAGE...]
           runs those of Python, by the interpreter that runs this; exit status 77 where it has no package moelab

A block of code whose first line is a comment with a file's name (`# my_cache.py`, `// my-sieve/my-sieve.cpp`) is that file, as
the reader would write it. Blocks marked `sh` are run in order by bash, one page in one folder: what one exports, the next one has.
Those with a line `python3 ...` are Python's.
"""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def families(source):
    return sorted(path.name.split(".")[0] for path in (source / "policies/templates").glob("*.cpp.in"))


# ---- names

def body(text, start):
    """What stands between the braces, or under the indentation, that begins at `start`."""
    end = re.compile(r"^(?=\S)|^\};", re.M).search(text, text.index("\n", start) + 1)
    return text[start:end.start() if end else len(text)]


def names_in_python(text, family):
    """Of the family's classes and their common base, with what they may set; a property is named as `self.NAME`."""
    found, wanted = set(), set()
    for match in re.finditer(r"^class (\w+)\((\w+)\):", text, re.M):
        code = body(text, match.start())
        if f'    family = "{family}"' in code or match[2] in wanted:
            wanted.add(match[1])
            found |= set(re.findall(r"^    (\w+): ClassVar\[", code, re.M)) - {"family"}
            for is_property, name in re.findall(r"^(    @property\n)?    def ([a-z]\w*)\(", code, re.M):
                found.add(f"self.{name}" if is_property else f"{name}(")
    return found


def functions_in_cpp(text, family):
    """The virtual functions of the interface; of a family without one, the function of its entry."""
    interface = re.search(r"^class \w+Policy \{", text, re.M)
    if interface:
        return set(re.findall(r"^  virtual [^(~]*?(\w+\()", body(text, interface.start()), re.M))
    entry = body(text, re.search(r"^struct \w+PolicyEntry \{", text, re.M).start())
    return {f"{name}(" for name in re.findall(r"std::function<[^;]*>\s+(\w+);", entry)}


def check_names(source):
    wrong = []
    table = (source / "policies/README.md").read_text()
    for family in families(source):
        page = source / "policies" / family / "README.md"
        if not page.exists():
            wrong.append(f"{page}: there is none")
            continue
        text = page.read_text()
        if f"({family}/README.md)" not in table:
            wrong.append(f"policies/README.md does not link {family}/README.md")
        names = {"C++": functions_in_cpp((page.parent / f"{family}.hpp").read_text(), family),
                 "Python": names_in_python((source / f"python/moelab/policies/{family}.py").read_text(), family)}
        for language, known in names.items():
            if not known:
                wrong.append(f"{family}: finds no function of the family in {language}")
            wrong += [f"{page}: does not name {name} of {language}" for name in sorted(known)
                      if not re.search(rf"\b{re.escape(name)}", text)]
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            if not (page.parent / target).exists():
                wrong.append(f"{page}: links {target}, which is not there")
    return wrong


# ---- blocks

def blocks(page):
    """(kind, text) of each fenced block that is marked with a kind."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.M | re.S)


def is_pythons(commands):
    return re.search(r"^python3 ", commands, re.M) is not None


def run_page(page, with_python, environment):
    """Runs a page's blocks in a new folder. Returns how many there were; raises CalledProcessError."""
    script, ran = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (kind, text) in enumerate(blocks(page)):
            if kind == "sh":
                if is_pythons(text) == with_python:
                    script.append(text)
                    ran += 1
                continue
            name = re.match(r"(?:#|//) (\S+\.\w+)\n", text)
            if not name:
                continue
            kept = Path(folder, f"block{number}")
            kept.write_text(text)
            script.append(f'mkdir -p "$(dirname {name[1]})" && cp {kept} {name[1]}\n')
        said = subprocess.run(["bash", "-e", "-c", "".join(script)], cwd=folder, env=environment, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace").stdout
        result = Path(folder, "result.json")
        if said.count("100% tests passed") != len(re.findall("^ctest ", "".join(script), re.M)):
            raise subprocess.CalledProcessError(0, "ctest: found no test", said)  # which is no failure to ctest
        if result.exists() and '"policy_libraries":' not in result.read_text():
            raise subprocess.CalledProcessError(0, "result.json: names no library", said)
    return ran


def run_pages(source, with_python, first_on_path, only=()):
    environment = {**os.environ, "PATH": f"{first_on_path}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("MOELAB_POLICY_PATH", None)
    bad = 0
    pages = [source / "policies/README.md", *(source / "policies" / f / "README.md" for f in families(source)),
             source / "policies/cache/sieve.md"]
    pages = [page for page in pages if not only or str(page.relative_to(source)) in only]
    for page in pages:
        began = time.monotonic()
        try:
            ran = run_page(page, with_python, environment)
        except subprocess.CalledProcessError as error:
            print(f"{page}: exit status {error.returncode} of {error.cmd}\n{error.stdout}" if error.returncode == 0 else
                  f"{page}: exit status {error.returncode}\n{error.stdout}")
            bad += 1
            continue
        print(f"{page.relative_to(source)}: {ran} blocks of commands, {time.monotonic() - began:.1f} s")
        if ran == 0:
            print(f"{page}: has none to run")
            bad += 1
    return bad


def main():
    what, source = sys.argv[1], Path(sys.argv[2]).resolve()
    if what == "names":
        wrong = check_names(source)
        print("\n".join(wrong), end="\n" if wrong else "")
        return bool(wrong)
    if what == "python":
        if importlib.util.find_spec("moelab") is None:
            print(f"skipped: {sys.executable} has no package moelab")
            return 77
        return bool(run_pages(source, True, Path(sys.executable).parent, sys.argv[3:]))
    return bool(run_pages(source, False, Path(sys.argv[3]).resolve().parent, sys.argv[4:]))


if __name__ == "__main__":
    sys.exit(main())
