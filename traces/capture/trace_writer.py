"""Writes routing traces, format version 2 (traces/README.md), request by request."""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import safe_open

from .errors import CaptureError

NO_EXPERT = 65535  # in ids: the layer does not run for this token
ENCODER, PREFILL, DECODE = 0, 1, 2  # phases

_SAFETENSORS_NAMES = {"uint64": "U64", "float32": "F32", "float16": "F16", "uint16": "U16", "uint8": "U8"}


@dataclass(frozen=True)
class Rows:
    """The rows of one request: arrays [rows, layers, ...] by tensor name, expert_ids among them, and a phase a row."""

    arrays: dict[str, np.ndarray]
    phases: np.ndarray  # U8 [rows]


@dataclass
class TraceWriter:
    """Memory does not grow with the trace: rows go to files beside `path`, one a tensor, until finish() puts them
    together under its name. Leaving the `with` block without finish() leaves nothing behind."""

    path: Path
    experts: int
    metadata: dict[str, str]
    requests: list[int] = field(default_factory=lambda: [0])  # request_offsets
    domains: list[str] = field(default_factory=list)
    request_domains: list[int] = field(default_factory=list)

    def __enter__(self) -> "TraceWriter":
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, np.dtype] = {}
        try:
            self._folder = tempfile.TemporaryDirectory(dir=self.path.resolve().parent, prefix=".moelab-")
        except OSError as error:
            raise CaptureError(f"{self.path}: cannot write into its folder: {error.strerror}") from error
        self._files: dict[str, object] = {}
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        self._folder.cleanup()

    @property
    def tokens(self) -> int:
        return self.requests[-1]

    def add_request(self, rows: Rows, domain: str | None = None) -> None:
        """All requests have a domain, or none has; all have the same tensors."""
        arrays = rows.arrays | {"phases": rows.phases}
        _check_ids(arrays["expert_ids"], self.experts)
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise CaptureError(
                    f"request {len(self.requests) - 1}: {name} has values that are not finite in {array.dtype}; "
                    "try --score-dtype float32"
                )
        if (domain is None) != (self.domains == []) and len(self.requests) > 1:
            raise CaptureError(f"request {len(self.requests) - 1}: some requests have a domain and some have none")
        for name, array in arrays.items():
            self._append(name, array)
        self.requests.append(self.tokens + len(rows.phases))
        if domain is not None:
            if domain not in self.domains:
                self.domains.append(domain)
            self.request_domains.append(self.domains.index(domain))

    def finish(self) -> None:
        """Puts the file under its name, whole and synced to storage."""
        if self.tokens == 0:
            raise CaptureError("nothing was recorded: there are no requests")
        self._append("request_offsets", np.array(self.requests, np.uint64))
        if self.domains:
            self._append("request_domains", np.array(self.request_domains, np.uint16))
            self.metadata["domains"] = json.dumps(self.domains, ensure_ascii=False)
        # Wide elements first and the header padded to 8 bytes: then every tensor is aligned in the file.
        names = sorted(self._shapes, key=lambda name: (-self._dtypes[name].itemsize, name))
        whole = Path(self._folder.name) / "whole"
        with open(whole, "wb") as out:
            header = json.dumps(self._header(names), ensure_ascii=False).encode()
            header += b" " * (-len(header) % 8)
            out.write(len(header).to_bytes(8, "little") + header)
            for name in names:
                self._files[name].seek(0)
                shutil.copyfileobj(self._files[name], out, 1 << 20)
                self._files.pop(name).close()
                (Path(self._folder.name) / name).unlink()
            out.flush()
            os.fsync(out.fileno())
        with safe_open(whole, "np") as trace:  # the container is what the reference reader takes it for
            assert sorted(trace.keys()) == sorted(names)
        os.replace(whole, self.path)

    def _append(self, name: str, array: np.ndarray) -> None:
        if name not in self._files:
            self._files[name] = open(Path(self._folder.name) / name, "w+b")
            self._shapes[name], self._dtypes[name] = (0, *array.shape[1:]), array.dtype
        assert (
            array.dtype.name in _SAFETENSORS_NAMES
            and array.dtype == self._dtypes[name]
            and array.shape[1:] == self._shapes[name][1:]
        ), name
        self._files[name].write(np.ascontiguousarray(array).data)
        self._shapes[name] = (self._shapes[name][0] + len(array), *array.shape[1:])

    def _header(self, names: list[str]) -> dict[str, object]:
        header: dict[str, object] = {"__metadata__": {"experts": str(self.experts), **self.metadata}}
        begin = 0
        for name in names:
            shape, dtype = self._shapes[name], self._dtypes[name]
            end = begin + dtype.itemsize * int(np.prod(shape))
            header[name] = {"dtype": _SAFETENSORS_NAMES[dtype.name], "shape": shape, "data_offsets": [begin, end]}
            begin = end
        return header


def _check_ids(ids: np.ndarray, experts: int) -> None:
    """As readers do: a row's ids are distinct and below `experts`, or all are NO_EXPERT."""
    ordered = np.sort(ids, axis=-1)
    repeated = (ordered[..., 1:] == ordered[..., :-1]).any(-1)
    good = (ordered[..., -1] < experts) & ~repeated | (ids == NO_EXPERT).all(-1)
    if not good.all():
        row, layer = np.argwhere(~good)[0]
        raise CaptureError(
            f"layer {layer} sends a token to the experts {ids[row, layer].tolist()}: "
            f"not distinct numbers below {experts}"
        )
