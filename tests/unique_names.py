#!/usr/bin/env python3
"""One name, one thing: checks that a name stands for one thing wherever two files may meet.

- The name of a source file stands once in the tree (CMakeLists.txt and README.md aside).
- A class, struct, union, enum or alias of a namespace is defined in one place. (Two classes of one name are a violation
  of C++'s one-definition rule that no compiler sees: the linker keeps one of the two destructors.)
- What a source file keeps to itself (in an unnamed namespace, as a static, or as a macro) has a name of its own in its
  folder: the folder's files may be compiled together.

usage: tests/unique_names.py [SOURCE_DIR]     Exit status 1 where a name stands twice; each is printed with its places.
"""
import collections
import os
import re
import subprocess
import sys

FOLDERS = ("models", "traces", "policies", "sim", "hw", "cli", "python", "experiments", "bench", "tests")
SOURCES = (".cpp", ".hpp", ".cu", ".cuh")
# Files of which a build compiles one: the one for a GPU or the one for its absence.
ALTERNATIVES = {"no_cuda_cases.cpp", "no_cuda_compute_device.cpp"}
# Folders whose files are always compiled one by one, for they need the same names: a file a processor, a program a file.
APART = {"bench", "hw/codec", "tests/fuzz"}

TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+')
      |(?P<macro>^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*)
      |(?P<word>[A-Za-z_]\w*)
      |(?P<sign>[{}();=<>,:\[\]&*~]|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE)


def tokens(text):
    """The words and signs of a C++ text with their lines; macro definitions as ('#define', name)."""
    line, position = 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        if match["macro"]:
            define = re.match(r"\s*#\s*(define|undef)\s+(\w+)", match["macro"])
            if define:
                yield "#" + define[1], define[2], line
        elif match["word"]:
            yield "word", match["word"], line
        elif match["sign"] and not match["sign"].isspace():
            yield "sign", match["sign"], line


def declared(statement):
    """(kind, name) of a declaration at the level of a namespace, given as its words and signs up to '{', ';' or '='."""
    words = [token for token in statement if token not in ("inline", "constexpr", "static", "const", "extern", "[", "]")]
    while words[:2] == ["template", "<"]:
        depth = 0
        for i, word in enumerate(words):
            depth += (word == "<") - (word == ">")
            if i > 1 and depth == 0:
                break
        words = words[i + 1:]
    if not words or words[0] in ("using", "typedef", "friend", "namespace", "static_assert"):
        return None
    if words[0] in ("class", "struct", "union", "enum"):
        names = [word for word in words[1:] if re.match(r"[A-Za-z_]", word) and word not in ("class", "struct", "final")]
        if not names or "(" in words:
            return None
        after = words[words.index(names[0]) + 1:words.index(names[0]) + 3]
        return None if after == [":", ":"] or after[:1] == ["<"] else ("type", names[0])  # "struct A::B", a specialization
    return "other", words


def definitions(text):
    """Yields (namespace, unnamed, kind, name, line): what a text defines at the level of namespaces."""
    scopes = []      # names of open namespaces ('' where unnamed); None: a brace of something else
    statement, first_line, parentheses = [], 0, 0
    for kind, text_of, line in tokens(text):
        if kind.startswith("#"):
            yield "", True, kind, text_of, line
            continue
        if not statement:
            first_line = line
        if None in scopes:  # within a class, a function, an initializer
            if text_of == "{":
                scopes.append(None)
            elif text_of == "}":
                scopes.pop()
                if None not in scopes and statement[-1:] != ["="]:
                    statement = []
            continue
        if text_of in "()":
            parentheses += 1 if text_of == "(" else -1
        if statement[:1] == ["using"] and text_of == "=":
            statement.append(text_of)
            continue
        if parentheses == 0 and text_of in ("{", ";", "=") and not (text_of == "=" and statement[-1:] == ["operator"]):
            if text_of == "{" and "namespace" in statement[:2]:
                names = [word for word in statement if re.match(r"\w", word) and word not in ("namespace", "inline")]
                scopes.append("::".join(names))
                statement = []
                continue
            if statement[:1] == ["using"] and statement[2:3] == ["="]:
                yield "::".join(filter(None, scopes)), "" in scopes, "alias", (statement[1], " ".join(statement[3:])), first_line
            found = declared(statement)
            forward = text_of == ";" and found and found[0] == "type" and "using" not in statement
            if found and not forward:
                space = "::".join(scope for scope in scopes if scope)
                unnamed = "" in scopes or "static" in statement
                if found[0] == "type":
                    yield space, unnamed, "type", found[1], first_line
                elif unnamed and text_of != ";" or (unnamed and "(" not in statement):
                    words = found[1]
                    if "(" in words:
                        name = words[words.index("(") - 1]
                        arguments = " ".join(words[words.index("(") + 1:])
                        if name != ">" and "operator" not in words and "::" not in " ".join(words[:words.index("(")]):
                            qualified = words[max(0, words.index("(") - 2)] == ":"
                            if not qualified:
                                yield space, True, "function", name + "(" + signature(arguments), first_line
                    else:
                        names = [word for word in words if re.match(r"[A-Za-z_]\w*$", word)]
                        if len(names) > 1:
                            yield space, True, "value", names[-1], first_line
            if text_of == "{":
                scopes.append(None)
                statement = []
            elif text_of == "=":
                statement = ["="]
            else:
                statement = []
            continue
        if text_of == "}" and parentheses == 0:
            if scopes:
                scopes.pop()
            statement = []
        elif statement[:1] != ["="]:
            statement.append(text_of)


def signature(arguments):
    """A function's parameters with neither their names nor their defaults: overloads may stand beside each other."""
    depth, parameters, current = 0, [], []
    for word in arguments.split(" "):
        depth += (word in "<([{") - (word in ">)]}") if word else 0
        if depth < 0:
            break
        if word == "," and depth == 0:
            parameters.append(current)
            current = []
        else:
            current.append(word)
    parameters.append(current)
    types = []
    for parameter in parameters:
        if "=" in parameter:
            parameter = parameter[:parameter.index("=")]
        if len(parameter) > 1 and re.match(r"[A-Za-z_]\w*$", parameter[-1]) and parameter[-2] != ":":
            parameter = parameter[:-1]
        types.append(" ".join(word for word in parameter if word != "const"))
    return ", ".join(types) + ")"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", *FOLDERS], capture_output=True, text=True)
    if listed.returncode == 0:
        files = [name for name in listed.stdout.split("\n") if name.endswith(SOURCES) and os.path.exists(os.path.join(root, name))]
    else:  # not a checkout: an unpacked archive
        files = [os.path.relpath(os.path.join(folder, name), root) for top in FOLDERS
                 for folder, _, names in os.walk(os.path.join(root, top)) for name in names if name.endswith(SOURCES)]
    meanings = collections.defaultdict(dict)  # by kind and name: what it stands for, where
    for path in sorted(files):
        meanings["file name", os.path.basename(path)][path] = path
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        undefined = {name for kind, name, _ in tokens(text) if kind == "#undef"}
        folder = os.path.dirname(path)
        for space, local, kind, name, line in definitions(text):
            if kind.startswith("#"):
                if path.endswith(".cpp") and name not in undefined:
                    meanings[f"macro of a file in {folder}", name][f"{path}:{line}"] = path
                continue
            meaning = path
            if kind == "alias":  # may stand twice, of the same thing
                kind, (name, meaning) = "type", name
            if not local and kind != "type":
                continue  # the linker finds functions and variables that stand twice
            if local and folder in APART:
                continue
            meanings[f"{kind} of a file in {folder}" if local else kind, f"{space}::{name}"][f"{path}:{line}"] = meaning
    wrong = 0
    for (kind, name), places in sorted(meanings.items()):
        places = {place: meaning for place, meaning in places.items()
                  if os.path.basename(place.split(":")[0]) not in ALTERNATIVES}
        if len(set(places.values())) > 1:
            wrong += 1
            print(f"{kind} '{name}' stands for {len(set(places.values()))} things: {', '.join(places)}")
    if wrong:
        print(f"{wrong} names stand for several things: rename all but one")
    else:
        print(f"{len(files)} files, {len(meanings)} names: each stands for one thing")
    return 1 if wrong else 0


sys.exit(main())
