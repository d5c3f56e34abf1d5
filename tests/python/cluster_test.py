"""Sweeps on a Dask cluster: the same store as on one machine, whatever happens to the workers."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import pytest

pytest.importorskip("distributed", reason="Dask is not installed")

import hosts as namespaces

# A lost worker is to be noticed in seconds, not in Dask's half minute (11 s is the least that it takes for TCP).
QUICK = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
         "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "6s", "DASK_LOGGING__DISTRIBUTED": "warning"}
ENVIRONMENT = {**os.environ, **QUICK, "MOELAB_PYTHON": sys.executable}


class Processes:
    """Started here, ended here."""

    def __init__(self, folder):
        self.folder, self.all = folder, []

    def start(self, command, **options):
        log = open(self.folder / f"process-{len(self.all)}.log", "w")
        options.setdefault("stdout", log)
        options.setdefault("stderr", log)
        process = subprocess.Popen(list(map(str, command)), env=ENVIRONMENT, start_new_session=True, **options)
        self.all.append(process)
        return process

    def stop(self):
        for process in reversed(self.all):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def logs(self):
        return "\n".join(p.read_text() for p in sorted(self.folder.glob("process-*.log")))


@pytest.fixture
def processes(tmp_path):
    started = Processes(tmp_path)
    yield started
    started.stop()


def wait_for(what, seconds=300):  # Dask takes a minute to start a point where other tests have the processors
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def scheduler(address, port):
    return [sys.executable, "-m", "dask", "scheduler", "--host", address, "--port", port, "--no-dashboard"]


def worker(to, folder, host="127.0.0.1", threads=1):
    return [sys.executable, "-m", "dask", "worker", to, "--host", host, "--nthreads", threads,
            "--no-dashboard", "--local-directory", folder, "--death-timeout", 120]


def write_sweep(folder, tiny, requests, repeats):
    """Of 4 * repeats points, each of which takes about requests / 200,000 seconds of a 2-core machine's."""
    tiny["workload"]["requests"] = requests
    path = folder / "sweep.json"
    path.write_text(json.dumps({"name": "s", "scenario": tiny, "axes": {"budget": ["300 kB", "350 kB"]},
                                "repeats": repeats}))
    return path


def sweep(program, path, db, *arguments):
    return [program, "sweep", path, "--db", db, "--format", "json", *arguments]


def run(command):
    return subprocess.run(list(map(str, command)), env=ENVIRONMENT, capture_output=True, text=True, timeout=240)


def rows(db, columns="identity, status, result"):
    with contextlib.closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as store:
        return store.execute(f"SELECT {columns} FROM run ORDER BY identity").fetchall()


def safe_rows(db, columns):
    try:
        return rows(db, columns)
    except sqlite3.OperationalError:  # not there yet
        return []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler and a worker of two threads, on this machine: for all tests, as for all users of one."""
    folder = tmp_path_factory.mktemp("cluster")
    started = Processes(folder)
    address = f"tcp://127.0.0.1:{free_port()}"
    started.start(scheduler("127.0.0.1", address.rsplit(":", 1)[1]))
    started.start(worker(address, folder / "worker", threads=2))
    yield address
    started.stop()


def test_a_cluster_gives_the_same_store(cluster, tiny, tmp_path, moelab_program):
    path = write_sweep(tmp_path, tiny, 40, 4)
    here = run(sweep(moelab_program, path, tmp_path / "here.db", "--jobs", 2))
    there = run(sweep(moelab_program, path, tmp_path / "there.db", "--cluster", cluster))
    assert there.returncode == 0, there.stderr
    summary = json.loads(there.stdout)
    assert summary["points"] == summary["done"] == 2 * 2 * 4 and summary["failed"] == 0
    assert here.returncode == 0 and rows(tmp_path / "there.db") == rows(tmp_path / "here.db")
    for host, wall, cpu, peak in rows(tmp_path / "there.db", "host, wall_s, cpu_s, peak_bytes"):
        assert host == socket.gethostname() and 0 < cpu <= 2 * wall and peak > 1e6
    again = run(sweep(moelab_program, path, tmp_path / "there.db", "--cluster", cluster))
    assert json.loads(again.stdout)["there"] == 16


def test_the_package_runs_sweeps_on_a_cluster(cluster, tiny, tmp_path, moelab_program):
    moelab = pytest.importorskip("moelab")
    pytest.importorskip("moelab._native", reason="the extension is not built")
    sweep = {"name": "s", "scenario": tiny, "axes": {"workload.batch": [1, 2]}}
    summary = moelab.sweep(sweep, tmp_path / "there.db", cluster=cluster, program=moelab_program)
    assert summary["done"] == 4
    moelab.sweep(sweep, tmp_path / "here.db")
    assert rows(tmp_path / "there.db") == rows(tmp_path / "here.db")
    with pytest.raises(moelab.InputError, match="no scheduler file"):
        moelab.sweep(sweep, tmp_path / "there.db", cluster=str(tmp_path / "none.json"))


def test_a_failing_point_and_limits_are_one_point_s(cluster, tiny, tmp_path, moelab_program):
    path = write_sweep(tmp_path, tiny, 40, 1)
    text = json.loads(path.read_text())
    text["axes"] = {"workload.requests": [40, 1_000_000]}
    text["limits"] = {"time": "1.5 s"}
    path.write_text(json.dumps(text))
    done = run(sweep(moelab_program, path, tmp_path / "r.db", "--cluster", cluster))
    summary = json.loads(done.stdout)
    assert done.returncode == 1 and (summary["done"], summary["failed"]) == (2, 2)
    assert sorted(status for status, in rows(tmp_path / "r.db", "status")) == ["done"] * 2 + ["timeout"] * 2
    assert all("still running after its time" in f["error"] for f in summary["failures"])


def test_a_killed_sweep_goes_on(cluster, processes, tiny, tmp_path, moelab_program):
    path = write_sweep(tmp_path, tiny, 40_000, 4)
    db = tmp_path / "r.db"
    first = processes.start(sweep(moelab_program, path, db, "--cluster", cluster))
    wait_for(lambda: len(safe_rows(db, "identity")) >= 4)
    first.kill()
    first.wait()
    before = len(rows(db))
    assert before < 16
    second = run(sweep(moelab_program, path, db, "--cluster", cluster))
    summary = json.loads(second.stdout)
    assert second.returncode == 0 and summary["there"] >= before and summary["there"] + summary["done"] == 16


def test_a_stopped_sweep_leaves_nothing_running(cluster, processes, tiny, tmp_path, moelab_program):
    tiny["workload"]["output_tokens"] = 100
    path = write_sweep(tmp_path, tiny, 250_000, 1)  # half a minute a point
    program = tmp_path / "moelab-to-stop"
    program.symlink_to(moelab_program)

    def points():
        begins = f"{program}\0point\0".encode()
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has just ended
                if process.read_bytes().startswith(begins):
                    found.append(process)
        return found

    for how in (signal.SIGINT, signal.SIGKILL):
        sweeping = processes.start(sweep(moelab_program, path, tmp_path / "r.db", "--cluster", cluster, "--moelab",
                                         program))
        wait_for(points)
        sweeping.send_signal(how)
        sweeping.wait()
        wait_for(lambda: not points(), seconds=60)
        assert rows(tmp_path / "r.db") == []  # stopped, then, not done


def test_what_is_missing_is_said(tiny, tmp_path, moelab_program, monkeypatch):
    path = write_sweep(tmp_path, tiny, 5, 1)
    no_scheduler = f"tcp://127.0.0.1:{free_port()}"

    def complaint(address, **environment):
        for name, value in environment.items():
            monkeypatch.setitem(ENVIRONMENT, name, value)
        begin = time.monotonic()
        done = run(sweep(moelab_program, path, tmp_path / "x.db", "--cluster", address))
        assert done.returncode == 2 and done.stdout == "" and time.monotonic() - begin < 60
        return done.stderr

    assert "no Dask scheduler answers at" in complaint(no_scheduler)
    assert "no Dask scheduler answers at" in complaint("neither address nor file")
    assert "there is no scheduler file" in complaint(str(tmp_path / "none.json"))
    assert "MOELAB_PYTHON" in complaint(no_scheduler, MOELAB_PYTHON="/no/python")
    (tmp_path / "distributed.py").write_text("raise ImportError('none here')\n")
    without = complaint(no_scheduler, MOELAB_PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert "has no Dask (none here)" in without and "pip install" in without


def test_a_worker_that_must_not_run_a_point_says_so(cluster, tiny, tmp_path, moelab_program):
    path = write_sweep(tmp_path, tiny, 5, 1)

    def complaint(program):
        done = run(sweep(moelab_program, path, tmp_path / "x.db", "--cluster", cluster, "--moelab", program))
        assert done.returncode == 2, done.stderr
        assert rows(tmp_path / "x.db") == []
        return done.stderr

    assert "there is no program /no/moelab on" in complaint("/no/moelab")
    other = tmp_path / "other"  # as another version answers: its own number in the job makes it refuse
    other.write_text("#!/bin/sh\nsed 's/\"version\":\"[^\"]*\"/\"version\":\"0.0.9\"/' | "
                     f"'{moelab_program}' \"$@\"\n")
    other.chmod(0o755)
    assert "is of moelab 0.0.9, this is moelab" in complaint(other)
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\ncat >/dev/null\necho 'unknown command point' >&2\nexit 2\n")
    old.chmod(0o755)
    assert "cannot run points: unknown command point" in complaint(old)
    assert "/bin/true" in complaint("/bin/true")


def test_a_crash_is_one_point_s(cluster, tiny, tmp_path, moelab_program):
    path = write_sweep(tmp_path, tiny, 5, 1)
    crashes = tmp_path / "crashes"
    crashes.write_text("#!/bin/sh\ncat >/dev/null\nkill -SEGV $$\n")
    crashes.chmod(0o755)
    done = run(sweep(moelab_program, path, tmp_path / "x.db", "--cluster", cluster, "--moelab", crashes))
    assert done.returncode == 1
    assert [status for status, in rows(tmp_path / "x.db", "status")] == ["failed"] * 4
    assert "ended with status -11" in json.loads(done.stdout)["failures"][0]["error"]


def test_answers_that_do_not_fit_fail_their_points_and_then_the_worker_is_left_out(cluster, tiny, tmp_path,
                                                                                 moelab_program):
    path = write_sweep(tmp_path, tiny, 5, 4)  # 16 points, more than are out at a time
    liar = tmp_path / "liar"

    def answers(command):
        liar.write_text(f"#!/bin/sh\n{command}\n")
        liar.chmod(0o755)
        return run(sweep(moelab_program, path, tmp_path / "x.db", "--cluster", cluster, "--moelab", liar))

    answer = json.dumps({"status": "done", "host": "h", "wall_s": 0, "cpu_s": 0, "peak_bytes": 0, "text": json.dumps(
        {"scenario": "other", "seed": 7, "metrics": {"ttft_s": -1}})})
    done = answers(f"cat >/dev/null; printf '%s\\n' '{answer}'")
    assert done.returncode == 2 and "no worker is left: 3 answers that did not fit" in done.stderr
    stored = rows(tmp_path / "x.db", "status, error")
    assert [status for status, _ in stored] == ["failed"] * len(stored) and len(stored) >= 3
    assert all(f"the answer of worker tcp://127.0.0.1:" in error for _, error in stored)
    assert all('scenario is "other"; expected "tiny-scenario"' in error for _, error in stored)
    done = answers("cat >/dev/null; echo '{\"status\": 3}'")
    assert done.returncode == 2 and "a point's outcome: expected {status, text" in done.stderr
    honest = run(sweep(moelab_program, path, tmp_path / "x.db", "--cluster", cluster, "--verify-share", "100%"))
    summary = json.loads(honest.stdout)
    assert (summary["done"], summary["verified"], summary["left_out"]) == (16, 16, [])


def test_a_worker_that_lies_is_left_out_and_the_others_go_on(processes, tiny, tmp_path, moelab_program):
    import distributed

    path = write_sweep(tmp_path, tiny, 5, 8)  # 32 points
    lie = json.dumps({"status": "done", "host": "h", "wall_s": 0, "cpu_s": 0, "peak_bytes": 0, "text": "no"})
    program = tmp_path / "moelab"
    program.write_text(f"#!/bin/sh\n[ -z \"$LIES\" ] && exec '{moelab_program}' \"$@\"\ncat >/dev/null; echo '{lie}'\n")
    program.chmod(0o755)
    address = f"tcp://127.0.0.1:{free_port()}"
    processes.start(scheduler("127.0.0.1", address.rsplit(":", 1)[1]))
    processes.start(worker(address, tmp_path / "honest"))
    processes.start(["env", "LIES=1", *worker(address, tmp_path / "lying")])
    with distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=240)
    done = run(sweep(moelab_program, path, tmp_path / "x.db", "--cluster", address, "--moelab", program))
    summary = json.loads(done.stdout)
    assert summary["done"] + summary["failed"] == 32 and 3 <= summary["failed"] < 16
    assert len(summary["left_out"]) == 1 and "3 answers that did not fit" in summary["left_out"][0]


def test_a_point_whose_workers_are_gone_is_for_all_that_are_left():
    asked = []

    class Client:
        def submit(self, run, programs, job, workers, **options):
            asked.append(workers)
            return self

        def add_done_callback(self, call):
            pass

    points = pytest.importorskip("moelab.cluster").Points(Client(), ["moelab"], lambda message: None)
    points.jobs[7] = {"number": 7, "key": "k", "job": "", "elsewhere_than": "a"}
    points.look_at_workers({"a": 1, "b": 1})
    points.submit(7)
    points.look_at_workers({"a": 1})
    assert asked == [["b"], None]


def test_an_answer_is_measured_in_bytes(monkeypatch):
    module = pytest.importorskip("moelab.cluster")
    monkeypatch.setattr(module, "MOST_BYTES", 30)

    class Future:
        def __init__(self, text):
            self.result = lambda: text

    points = module.Points(None, ["moelab"], lambda message: None)
    assert points.answer(Future("\u20ac" * 10)) == "\u20ac" * 10
    for answer in ("\u20ac" * 11, "x" * 31, b"x", None):
        assert points.answer(Future(answer)) == "neither a text nor of a result's size"


def test_three_hosts_one_of_which_is_cut_off(processes, tiny, tmp_path, moelab_program):
    missing = namespaces.why_not()
    if missing:
        pytest.skip(missing)
    path = write_sweep(tmp_path, tiny, 120_000, 5)  # 20 points
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    with namespaces.Hosts(3) as hosts:
        first, _, last = hosts
        address = f"tcp://{first.address}:8786"
        processes.start(first.command(*scheduler(first.address, 8786)))
        for host in hosts:
            processes.start(host.command(*worker(address, tmp_path / host.name, host.address)))
        out = open(tmp_path / "summary.json", "w")
        running = processes.start(first.command(*sweep(moelab_program, path, there, "--cluster", address)),
                                  stdout=out)
        wait_for(lambda: {h for h, in safe_rows(there, "host")} == {"host1", "host2", "host3"})
        # A point that has just begun there cannot be over when the cable is out.
        earlier = set(last.processes("point", "--outcome"))
        begun = wait_for(lambda: set(last.processes("point", "--outcome")) - earlier)
        last.cut_off()
        assert begun & set(last.processes("point", "--outcome")), "the point was over before the cut"
        at_cut = len(rows(there))
        time.sleep(13)  # past all of QUICK: its points are others' now
        last.join()  # and what it has finished meanwhile is not taken
        assert running.wait(timeout=240) == 0, processes.logs()
        summary = json.loads((tmp_path / "summary.json").read_text())
        assert at_cut < summary["points"]
        processes.stop()
    assert (summary["points"], summary["runs"], summary["done"], summary["failed"]) == (20, 20, 20, 0)
    local = run(sweep(moelab_program, path, here))
    assert local.returncode == 0
    assert len(rows(there)) == 20 and rows(there) == rows(here)
