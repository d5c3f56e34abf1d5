#!/usr/bin/env python3
"""Lets torch's CUDA wheel load where the CUDA libraries are not installed, for use on the CPU.

The wheel's libraries name some two and a half gigabytes of CUDA libraries that the loader must find before torch can be
imported, though without a GPU next to nothing in them is called. This builds one small library with the functions
of those that are not installed, each of which returns an error, and puts it beside torch's own under their names. The
CUDA runtime (2 MB) must be the real one: it is asked for the GPUs, and finds none. Needs gcc and binutils. Run with the
Python that torch is installed in.
"""

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

CUDA_FUNCTION = re.compile(r"cu|__cuda|nccl|nvrtc|nvshmem")
CUDA_LIBRARY = re.compile(r"NEEDED.*\[(lib(?:cu|nccl|nvrtc|nvshmem)[^\]]+)\]")
ERROR = 100  # cudaErrorNoDevice


def main() -> None:
    package = importlib.util.find_spec("torch")  # found, not imported
    if package is None:
        sys.exit("torch is not installed")
    folder = Path(package.origin).parent / "lib"
    libraries = [path for path in sorted(folder.glob("*.so*")) if not path.is_symlink()]
    needed = {name for path in libraries for name in CUDA_LIBRARY.findall(said("readelf", "-d", path))}
    installed = {path.name: path for path in [*libraries, *folder.parents[1].glob("nvidia/**/*.so*")]}
    missing = sorted(needed - installed.keys())
    if not missing:
        return
    libraries += [installed[name] for name in sorted(needed & installed.keys())]
    stub = folder / "libno_cuda.so"
    build(stub, undefined_functions(libraries))
    for name in missing:
        (folder / name).symlink_to(stub.name)


def undefined_functions(libraries: list[Path]) -> dict[str, set[str]]:
    """CUDA functions that these libraries call and none of them defines, by symbol version ("" for none)."""
    defined = {name for path in libraries for name, _ in symbols(path, "--defined-only")}
    functions = defaultdict(set)
    for path in libraries:
        for name, version in symbols(path, "--undefined-only"):
            if CUDA_FUNCTION.match(name) and name not in defined:
                functions[version].add(name)
    return functions


def symbols(library: Path, which: str) -> list[tuple[str, str]]:
    names = [line.split()[0] for line in said("nm", "-D", which, "--format=posix", library).splitlines()]
    return [(name.partition("@")[0], name.rpartition("@")[2] if "@" in name else "") for name in names]


def build(stub: Path, functions: dict[str, set[str]]) -> None:
    names = sorted(set().union(*functions.values()))
    versions = {version: sorted(its) for version, its in functions.items() if version}
    with tempfile.TemporaryDirectory() as temporary:
        code, script = Path(temporary) / "stub.c", Path(temporary) / "stub.map"
        code.write_text("".join(map(function, names)))
        script.write_text("".join(f"{version} {{ global: {'; '.join(its)}; }};\n" for version, its in versions.items()))
        said("gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,--version-script={script}", "-o", stub, code)


def function(name: str) -> str:
    if "String" in name:  # describes an error
        return f'const char* {name}(void) {{ return "CUDA is not installed"; }}\n'
    return f"long {name}(void) {{ return {ERROR}; }}\n"


def said(*command: object) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
