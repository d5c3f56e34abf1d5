"""Bars of calls that take long: by tqdm, where it is installed, in terminals and notebooks; silent elsewhere."""

import contextlib
import sys
import warnings


def _in_a_notebook():
    return "ipykernel" in sys.modules and "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def _tqdm():
    """Its bar, or None where there is nothing to draw one on or by."""
    try:
        if not _in_a_notebook() and not sys.stderr.isatty():
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a notebook without widgets, which has bars of text
            from tqdm.auto import tqdm
    except (ImportError, AttributeError, ValueError):  # no tqdm; a stream that is none, or is closed
        return None
    return tqdm


@contextlib.contextmanager
def shown(what):
    """What a call tells how far it is: a function of (done, all).

    (0, 0), of a call that does not know how far it is, shows the time alone.
    """
    tqdm = _tqdm()
    if tqdm is None:
        yield lambda done, all: None
        return
    bars = []  # one, made at the first tick: calls that end before it have none

    def tell(done, all):
        if not bars:
            bars.append(tqdm(total=all or None, desc=what, leave=False, bar_format="{desc} {elapsed}"))
        bar = bars[0]
        if all > 0:
            bar.bar_format = "{desc} {percentage:3.0f} %|{bar}| {elapsed}, {remaining} left"
            bar.total, bar.n = all, min(done, all)
        bar.refresh()

    try:
        yield tell
    finally:
        for bar in bars:
            bar.close()
