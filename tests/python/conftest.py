"""What the package's tests share. Packages that are absent skip the tests that need them."""

import os
import pathlib
import shutil

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def pytest_configure(config):
    config.addinivalue_line("markers", "cluster: needs Dask and the program moelab")


@pytest.fixture(scope="session")
def moelab_program():
    """The program: $MOELAB_PROGRAM, the release build's, or the one in the PATH."""
    for name in (os.environ.get("MOELAB_PROGRAM"), SOURCE / "build/release/cli/moelab", "moelab"):
        found = name and shutil.which(str(name))
        if found:
            return str(pathlib.Path(found).resolve())
    pytest.skip("the program moelab is not built")


# A model and a device that a point takes milliseconds on; the numbers are no real machine's.
TINY = {
    "name": "tiny-scenario",
    "model": {"name": "tiny", "hidden": 32, "vocab": 100, "layers": 2,
              "attention": {"heads": 4, "head_dim": 8}, "moe": {"experts": 4, "top_k": 2, "width": 48}},
    "device": {
        "name": "tiny-device", "title": "Tiny device",
        "sources": {"test": {"kind": "measured", "text": "a test"}},
        "memory": {"total": {"value": "4 MB", "source": "test"},
                   "system_reserve": {"value": "0 B", "source": "test"},
                   "bandwidth": {"value": "1 GB/s", "source": "test"}},
        "cpu": {"threads": {"value": 4, "source": "test"}, "dispatch": {"value": "0 us", "source": "test"}},
        "ssd": {"read": {"latency": "5 us", "rate": "500 MB/s", "source": "test"},
                "slowdown_while_decompressing": {"value": 1, "source": "test"},
                "readers": {"value": [1, 2], "source": "test"}},
        "page_cache": {"read": {"latency": "1 us", "rate": "4 GB/s", "source": "test"}},
        "codecs": {"lz": {"ratio": {"value": 0.5, "source": "test"},
                          "decompress": {"value": "400 MB/s", "source": "test"}}},
        "gpu": {"peak": {"value": "10 GFLOP/s", "source": "test"},
                "flops_efficiency": {"value": 0.5, "source": "test"},
                "launch": {"value": "2 us", "source": "test"}}},
    "budget": "300 kB",
    "seed": 3,
    "workload": {"batch": 2, "requests": 4, "prompt_tokens": 3, "output_tokens": 5},
    "systems": [{"name": "lru", "weights": "whole", "page_cache": False, "cache": {"policy": "lru"}},
                {"name": "fifo", "weights": "whole", "page_cache": False, "cache": {"policy": "fifo"}}],
}


@pytest.fixture
def tiny():
    import copy

    return copy.deepcopy(TINY)
