"""Runs points of a sweep on a Dask cluster: `python3 -m moelab.cluster ADDRESS`.

`moelab sweep --cluster` starts this and speaks with it, one JSON object a line. It needs Dask
(pip install "dask[distributed]") and nothing else of this package; workers need Dask and the program moelab.

On standard input, a point: {"number": 7, "key": "<identity of its run>", "job": "<for moelab point>"}.
On standard output:
  {"slots": 8}                         points that the cluster runs at a time now; the first line
  {"number": 7, "outcome": {...}}      a point's end, as `moelab point --outcome` says it
  {"fatal": "..."}                     no point can be run any more; the last line
The end of standard input stops everything that still runs.

Each point runs in a process of its own on some worker. A worker that is lost loses nothing: Dask gives its
points to others, and a point's result is taken once.
"""

import argparse
import json
import os
import queue
import sys
import threading
import time

RETRIES = 3  # of a point whose process could not be started


def run_point(programs, job):
    """On a worker: the first of `programs` that is there runs the job. Returns its answer, or why there is none."""
    # Dask sends this function by value, as workers need not have this module: it takes nothing from around it.
    import json
    import shutil
    import socket
    import subprocess

    program = next((found for found in map(shutil.which, programs) if found), None)
    if program is None:
        return {"refused": f"there is no program {' or '.join(programs)} on {socket.gethostname()}; install "
                           "moelab there, or say where it is with --moelab (in Python: program=)"}

    def wanted():  # not when the sweep was stopped: Dask then forgets the task, but cannot end its thread
        try:
            from distributed.worker import get_worker, thread_state

            task = get_worker().state.tasks.get(thread_state.key)
            return task is not None and task.state != "cancelled"
        except Exception:  # not promised by Dask: then the point runs to its end
            return True

    ended = subprocess.Popen([program, "point", "--outcome"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    given = job.encode()
    while True:
        try:
            out, complaint = ended.communicate(given, timeout=1)
            break
        except subprocess.TimeoutExpired:
            given = None  # it is under way
            if not wanted():
                ended.kill()
                ended.communicate()
                raise RuntimeError("nobody waits for this point any more")
    try:
        answer = json.loads(out)
        if isinstance(answer, dict) and ("status" in answer or "refused" in answer):
            return answer
    except ValueError:
        pass
    why = " ".join(complaint.decode(errors="replace").split())[-2000:]
    if ended.returncode >= 0:  # no moelab, or one that knows no `point`: others end with an answer or by a signal
        return {"refused": f"{program} on {socket.gethostname()} cannot run points" + (f": {why}" if why else "")}
    return {"status": "failed", "host": socket.gethostname(), "wall_s": 0, "cpu_s": 0, "peak_bytes": 0,
            "text": f"{program} ended with status {ended.returncode}" + (f": {why}" if why else "")}


class Fatal(Exception):
    """No point can be run any more."""


def connect(address, seconds):
    try:
        import distributed
    except ImportError as error:
        raise Fatal(f"{sys.executable} has no Dask ({error}); install it with: {sys.executable} -m pip install "
                    "'dask[distributed]', or name another Python in MOELAB_PYTHON") from error
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    if "scheduler_file" in where and not os.path.exists(address):  # Dask would wait for it
        raise Fatal(f"there is no scheduler file '{address}'")
    began = time.monotonic()
    try:
        return distributed.Client(**where, timeout=seconds, set_as_default=False, name="moelab")
    except Exception as error:  # Dask promises no kinds
        waited = f" within {seconds:g} s" if time.monotonic() - began >= seconds else ""
        raise Fatal(f"no Dask scheduler answers at '{address}'{waited} ({error}); is it running "
                    "(dask scheduler), and is its port reachable from here?") from error


def check_versions(client):
    """A function cannot be sent to another Python; Dask would fail at it in words that nobody understands."""
    ours = "%d.%d" % sys.version_info[:2]
    for address, about in (client.get_versions().get("workers") or {}).items():
        theirs = ".".join(str(about.get("host", {}).get("python", ours)).split(".")[:2])
        if theirs != ours:
            raise Fatal(f"the worker at {address} runs Python {theirs}, here it is {ours} ({sys.executable}); "
                        "use the same on both, with MOELAB_PYTHON")


class Points:
    """Between standard input and output and the cluster. One thread works; others only fill its queue."""

    def __init__(self, client, programs, say):
        self.client, self.programs, self.say = client, programs, say
        self.events = queue.Queue()
        self.jobs = {}  # by number, of points that are out: the line that asked for it
        self.futures = {}
        self.again = []  # numbers to be submitted once the scheduler is back
        self.slots = None

    def read(self, lines):
        for line in lines:
            self.events.put(("job", json.loads(line)))
        self.events.put(("end", None))

    def watch(self, seconds=1.0):
        """Workers come and go."""
        stopped = threading.Event()
        while not stopped.wait(seconds):
            try:
                self.events.put(("slots", sum(self.client.nthreads().values())))
            except Exception:  # the scheduler does not answer; work() sees to that
                pass

    def submit(self, number):
        job = self.jobs[number]
        future = self.client.submit(run_point, self.programs, job["job"], key="moelab-" + job["key"],
                                    retries=RETRIES, pure=False)
        self.futures[number] = future
        future.add_done_callback(lambda done: self.events.put(("done", (number, done))))

    def take(self, number, future):
        if self.futures.get(number) is not future:
            return  # of an earlier submission
        if future.cancelled():  # the scheduler was lost
            self.again.append(number)
            return
        error = future.exception() if future.status == "error" else None
        if error is None:
            outcome = future.result()
        else:
            outcome = {"status": "failed", "host": "", "wall_s": 0, "cpu_s": 0, "peak_bytes": 0,
                       "text": f"on the cluster: {type(error).__name__}: {error}"}
        del self.jobs[number], self.futures[number]
        future.release()
        if "refused" in outcome:
            raise Fatal(outcome["refused"])
        self.say({"number": number, "outcome": outcome})

    def tell_slots(self, slots):
        if slots != self.slots:
            self.slots = slots
            self.say({"slots": slots})

    def work(self):
        for target, arguments in ((self.read, (sys.stdin,)), (self.watch, ())):
            threading.Thread(target=target, args=arguments, daemon=True).start()
        self.tell_slots(sum(self.client.nthreads().values()))
        while True:
            try:
                kind, what = self.events.get(timeout=1)
            except queue.Empty:
                kind, what = None, None
            if kind == "end":
                return
            if kind == "job":
                self.jobs[what["number"]] = what
                self.submit(what["number"])
            elif kind == "done":
                self.take(*what)
            elif kind == "slots":
                self.tell_slots(what)
            if self.client.status in ("closed", "closing"):
                raise Fatal("the Dask scheduler is gone; what was running is lost, what is stored is safe")
            if self.again and self.client.status == "running":
                waiting, self.again = self.again, []
                for number in waiting:
                    self.submit(number)

    def stop(self):
        if self.futures and self.client.status == "running":
            self.client.cancel(list(self.futures.values()), force=True)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m moelab.cluster", description=__doc__.split("\n\n")[0])
    parser.add_argument("address", help="of a Dask scheduler (tcp://host:8786), or its scheduler file (.json)")
    parser.add_argument("--moelab", action="append", help="the program on the workers; the first that is there")
    parser.add_argument("--timeout", type=float, default=30, help="seconds to find the scheduler in")
    options = parser.parse_args()
    # Standard output is ours alone: what libraries print goes to standard error.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    status = 0
    try:
        client = connect(options.address, options.timeout)
        check_versions(client)
        points = Points(client, options.moelab or ["moelab"], say)
        try:
            points.work()
        finally:
            points.stop()
    except Fatal as error:
        say({"fatal": str(error)})
        status = 1
    except BrokenPipeError:
        pass  # nobody listens any more
    sys.stderr.flush()
    os._exit(status)  # threads of Dask may wait for a scheduler that never comes back


if __name__ == "__main__":
    main()
