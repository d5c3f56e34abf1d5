"""The program `moelab`, which is in the package: the command and `python3 -m moelab` become it."""

import os
import signal
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "moelab")
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and a program would inherit that
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(program, ["moelab", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"moelab: {program}: {error.strerror}; install the package moelab again")


if __name__ == "__main__":
    main()
