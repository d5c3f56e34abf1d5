"""Text that ships with Debian 12, in named domains, for training and prompting small language models.

The packages are downloaded and unpacked into a folder of our own, not installed: what is read depends on the
packages' versions alone, not on what a machine happens to have, and needs no root. (Debian's container images
leave out most documentation, so an installed system is no source.) apt must know the packages: `apt-get update`.
"""

import gzip
import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

# domain -> (packages, patterns of the files to read below the unpacked packages)
SOURCES = {
    "licences": (["base-files"], ["usr/share/common-licenses/*", "usr/share/doc/*/copyright"]),
    "manuals": (["manpages", "manpages-dev"], ["usr/share/man/man*/*.gz"]),
    "german": (["manpages-de"], ["usr/share/man/de/man*/*.gz"]),
    "documentation": (["git-doc"], ["usr/share/doc/git-doc/**/*.txt"]),
    "python": (["libpython3.11-stdlib"], ["usr/lib/python3.11/**/*.py"]),
    "headers": (
        ["libc6-dev", "linux-libc-dev", "libstdc++-12-dev"],
        ["usr/include/**/*.h", "usr/include/c++/12/**/*"],
    ),
    "perl": (["perl-modules-5.36"], ["usr/share/perl/**/*.pm"]),
    "shell": (["bash-completion"], ["usr/share/bash-completion/**/*"]),
    "changelogs": ([], ["usr/share/doc/*/changelog*.gz"]),
}

HELD_OUT_SHARE = 16  # one document in so many is held out
MIN_DOCUMENT = 400  # bytes; below, a file is mostly its name


@dataclass(frozen=True)
class Document:
    name: str  # path in its package
    text: str


@dataclass(frozen=True)
class Domain:
    name: str
    train: list[Document]
    held_out: list[Document]


class TextError(Exception):
    """The text could not be had; the message says what to do."""


def all_packages() -> list[str]:
    return sorted({package for packages, _ in SOURCES.values() for package in packages})


def unpack_packages(folder: Path) -> list[str]:
    """Downloads and unpacks what is missing below `folder`; returns the packages' file names, with versions."""
    downloads = folder / "packages"
    downloads.mkdir(parents=True, exist_ok=True)
    tree = folder / "tree"
    for package in all_packages():
        if any(downloads.glob(f"{package}_*.unpacked")):
            continue
        for stale in downloads.glob(f"{package}_*.deb"):
            stale.unlink()
        _run(["apt-get", "download", package], downloads, f"run apt-get update, then check: apt-cache policy {package}")
        (deb,) = downloads.glob(f"{package}_*.deb")
        _run(["dpkg-deb", "-x", str(deb.resolve()), str(tree.resolve())], downloads, "the package is damaged")
        deb.rename(deb.with_suffix(".unpacked"))
    return sorted(path.stem for path in downloads.glob("*.unpacked"))


def _run(command: list[str], folder: Path, advice: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise TextError(f"{command[0]}: {error.strerror} (the text comes from Debian packages)") from error
    if done.returncode != 0:
        raise TextError(f"{' '.join(command)} failed: {done.stderr.strip()}; {advice}")


def read_domains(folder: Path, most_bytes: int) -> list[Domain]:
    """All domains, split by document. A domain's training text ends with the document that passes most_bytes.

    Documents come in the order of their names' hashes, which also say which are held out: the same whatever
    else is in the folder. Equal texts under several names count once, so none is on both sides of the split.
    """
    tree = folder / "tree"
    seen: set[bytes] = set()
    domains = []
    for name, (_, patterns) in SOURCES.items():
        paths = {
            path for pattern in patterns for path in tree.glob(pattern) if path.is_file() and not path.is_symlink()
        }
        train, held_out, size = [], [], 0
        for key, relative, path in sorted(
            (_hash(str(p.relative_to(tree))), str(p.relative_to(tree)), p) for p in paths
        ):
            text = _read(path)
            digest = hashlib.sha256(text.encode()).digest()
            if len(text) < MIN_DOCUMENT or digest in seen:
                continue
            seen.add(digest)
            if key[0] % HELD_OUT_SHARE == 0:
                held_out.append(Document(relative, text))
            elif size < most_bytes:
                train.append(Document(relative, text))
                size += len(text)
        if not train or not held_out:
            raise TextError(
                f"{tree}: the domain {name} has {len(train)} + {len(held_out)} documents; delete {folder} and try again"
            )
        domains.append(Domain(name, train, held_out))
    return domains


def _hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _read(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode("utf-8", errors="replace")
