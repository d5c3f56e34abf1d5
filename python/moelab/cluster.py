"""Runs points of a sweep on a Dask cluster: `python3 -m moelab.cluster ADDRESS`.

`moelab sweep --cluster` starts this and speaks with it, one JSON object a line. It needs Dask
(pip install "dask[distributed]") and nothing else of this package; workers need Dask and the program moelab.

On standard input:
  {"number": 7, "key": "<identity of its run>", "job": "<for moelab point>", "elsewhere_than": "tcp://..."}
                                       a point; another worker than that one runs it, where there is one
  {"leave_out": "tcp://...", "why": "..."}  a worker that is to run no point any more
On standard output:
  {"slots": 8}                         points that the cluster runs at a time now; the first line
  {"number": 7, "worker": "tcp://...", "answer": "..."}  a point's end, as `moelab point --outcome` says it; it
                                       is the worker's word, and is believed by none but who checks it
  {"left_out": "..."}                  a worker that runs no point any more, and why
  {"fatal": "..."}                     no point can be run any more; the last line
The end of standard input stops everything that still runs.

Answers travel as texts, which are all that is unpacked of a result here. Dask itself unpickles what its
scheduler says (errors of tasks, for one): a cluster whose scheduler is not trusted must not be used.

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
MOST_BYTES = 64 << 20  # of an answer in UTF-8, far more than a result has; as in sim/sweep/point_exchange.cpp


def run_point(programs, job):
    """On a worker: the first of `programs` that is there runs the job. Returns its answer, or why there is none, as
    a text."""
    # Dask sends this function by value, as workers need not have this module: it takes nothing from around it.
    import json
    import shutil
    import socket
    import subprocess

    program = next((found for found in map(shutil.which, programs) if found), None)
    if program is None:
        return json.dumps({"refused": f"there is no program {' or '.join(programs)} on {socket.gethostname()}; "
                                      "install moelab there, or say where it is with --moelab (in Python: "
                                      "program=)"})

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
                raise RuntimeError("this point is not wanted any more")
    try:
        answer = json.loads(out)
        if isinstance(answer, dict) and ("status" in answer or "refused" in answer):
            return json.dumps(answer)
    except (ValueError, RecursionError):
        pass
    why = " ".join(complaint.decode(errors="replace").split())[-2000:]
    if ended.returncode >= 0:  # no moelab, or one that knows no `point`: others end with an answer or by a signal
        return json.dumps({"refused": f"{program} on {socket.gethostname()} cannot run points" +
                                      (f": {why}" if why else "")})
    return json.dumps({"status": "failed", "host": socket.gethostname(), "wall_s": 0, "cpu_s": 0, "peak_bytes": 0,
                       "text": f"{program} ended with status {ended.returncode}" + (f": {why}" if why else "")})


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
        # Results are unpacked by msgpack alone, which knows texts and no code.
        return distributed.Client(**where, timeout=seconds, set_as_default=False, name="moelab",
                                  serializers=["msgpack", "error", "pickle"], deserializers=["msgpack", "error"])
    except Exception as error:  # Dask promises no kinds
        waited = f" within {seconds:g} s" if time.monotonic() - began >= seconds else ""
        raise Fatal(f"no Dask scheduler answers at '{address}'{waited} ({error}); is it running "
                    "(dask scheduler), and is its port reachable from here?") from error


def check_versions(client):
    """A function cannot be sent to another Python; Dask would fail at it in words that do not say so."""
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
        self.allowed = {}  # by number: workers, of points that not every worker may run
        self.again = []  # numbers to be submitted once the scheduler is back
        self.submitted = 0
        self.threads = {}  # by worker's address
        self.left_out = {}  # why, by worker's address
        self.slots = None

    def read(self, lines):
        for line in lines:
            asked = json.loads(line)
            self.events.put(("leave out" if "leave_out" in asked else "job", asked))
        self.events.put(("end", None))

    def watch(self, seconds=1.0):
        """Workers come and go."""
        stopped = threading.Event()
        while not stopped.wait(seconds):
            try:
                self.events.put(("workers", self.client.nthreads()))
            except Exception:  # the scheduler does not answer; work() sees to that
                pass

    def submit(self, number):
        job = self.jobs[number]
        trusted = set(self.threads) - set(self.left_out)
        where = trusted - {job.get("elsewhere_than")} or trusted
        self.allowed.pop(number, None)  # of an earlier submission, to workers that may be gone
        if where and where != set(self.threads):
            self.allowed[number] = where
        self.submitted += 1  # Dask has one answer for a key
        future = self.client.submit(run_point, self.programs, job["job"], key=f"moelab-{job['key']}-{self.submitted}",
                                    workers=list(self.allowed.get(number, ())) or None, retries=RETRIES, pure=False)
        self.futures[number] = future
        future.add_done_callback(lambda done: self.events.put(("done", (number, done))))

    def take(self, number, future):
        if self.futures.get(number) is not future:
            return  # of an earlier submission
        if future.cancelled():  # the scheduler was lost
            self.again.append(number)
            return
        worker = next(iter(self.client.who_has([future]).get(future.key) or ()), "")
        if future.status == "error":
            answer = self.failure(future)
        elif worker in self.left_out:
            return self.submit(number)
        else:
            answer = self.answer(future)
        del self.futures[number]
        future.release()
        try:
            refused = str(json.loads(answer)["refused"])[:2000]
        except (ValueError, TypeError, KeyError, RecursionError):  # an answer; it is checked elsewhere
            del self.jobs[number]
            self.allowed.pop(number, None)
            self.say({"number": number, "worker": worker, "answer": answer})
            return
        if not worker:
            raise Fatal(refused)
        self.leave_out(worker, refused)
        self.submit(number)

    def failure(self, future):
        """A task's error, which Dask has unpickled, as an answer."""
        error = future.exception()
        return json.dumps({"status": "failed", "host": "", "wall_s": 0, "cpu_s": 0, "peak_bytes": 0,
                           "text": f"on the cluster: {type(error).__name__}: {error}"})

    def answer(self, future):
        """What the worker said, or that it said nothing that can be read."""
        try:
            answer = future.result()
        except Exception as error:  # it was packed in another way than as a text
            return f"unreadable: {type(error).__name__}"
        if isinstance(answer, str) and len(answer) <= MOST_BYTES:  # of one byte each at least
            encoded = answer.encode(errors="replace")
            if len(encoded) <= MOST_BYTES:
                return encoded.decode()
        return "neither a text nor of a result's size"

    def leave_out(self, worker, why):
        if worker in self.left_out:
            return
        self.left_out[worker] = why
        self.say({"left_out": f"worker {worker}: {why}"})
        self.look_at_workers(self.threads)

    def look_at_workers(self, threads):
        """Points whose workers are all gone are for others."""
        self.threads = threads
        if self.left_out and threads and not set(threads) - set(self.left_out):
            raise Fatal("no worker is left: " + "; ".join(dict.fromkeys(self.left_out.values())))
        self.tell_slots(sum(count for worker, count in threads.items() if worker not in self.left_out))
        for number in [n for n in self.futures if n in self.allowed and not self.allowed[n] & set(threads)]:
            self.submit(number)

    def tell_slots(self, slots):
        if slots != self.slots:
            self.slots = slots
            self.say({"slots": slots})

    def work(self):
        for target, arguments in ((self.read, (sys.stdin,)), (self.watch, ())):
            threading.Thread(target=target, args=arguments, daemon=True).start()
        self.look_at_workers(self.client.nthreads())
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
            elif kind == "leave out":
                self.leave_out(what["leave_out"], what["why"])
            elif kind == "workers":
                self.look_at_workers(what)
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
        pass  # the sweep listens no more
    sys.stderr.flush()
    os._exit(status)  # threads of Dask may wait for a scheduler that never comes back


if __name__ == "__main__":
    main()
