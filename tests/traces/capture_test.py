#!/usr/bin/env python3
"""Tests of traces/capture_hf.py and traces/train_default.py against the real libraries: runs all capture_*_test.py.

Exits with 77 (skipped) where the Python packages are not installed (capture_environment.sh installs them).
"""

import os
import sys
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "traces"), str(Path(__file__).resolve().parent)]
os.environ["HF_HUB_OFFLINE"] = "1"


def main() -> int:
    try:
        import torch
        import transformers
    except ImportError as missing:
        print(f"skipped: {missing} (tests/traces/capture_environment.sh install)")
        return 77
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tests = unittest.TestLoader().discover(str(Path(__file__).parent), pattern="capture_*_test.py")
    return 0 if unittest.TextTestRunner().run(tests).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
