"""The package against the program: the same results, the same errors."""

import gc
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

np = pytest.importorskip("numpy")
moelab = pytest.importorskip("moelab")
pytest.importorskip("moelab._native", reason="the extension is not built")

from conftest import SOURCE


def program_result(program, *arguments):
    """`program`: a path, or the words of a command."""
    words = [program] if isinstance(program, str) else program
    done = subprocess.run([*words, "run", *arguments, "--format", "json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def test_a_run_is_that_of_the_program(tiny, tmp_path, moelab_program):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(tiny))
    expected = program_result(moelab_program, str(path), "--set", "workload.batch=1")
    assert [r["system"] for r in expected] == ["lru", "fifo"]
    both = moelab.run(path, settings={"workload.batch": 1})
    assert both.systems == expected == list(both["systems"]) and both[1] == expected[1]
    assert both.answer == expected[0]["answer"]
    for name, given in (("fifo", str(path)), ("lru", tiny)):
        one = program_result(moelab_program, str(path), "--system", name, "--set", "workload.batch=1")
        assert moelab.run(given, system=[name], settings={"workload.batch": "1"}) == one


def test_a_run_with_seeds_answers_as_the_program_does(tiny, tmp_path, moelab_program):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(tiny))
    expected = program_result(moelab_program, str(path), "--seeds", "3")
    run = moelab.run(path, seeds=3)
    assert run.systems == expected and run.answer["seeds"] == 3
    assert moelab.run(tiny, seeds=3).answer == run.answer
    # The mean of what runs of each seed come to.
    of_lru = [moelab.run(tiny, system="lru", settings={"seed": seed})["metrics"]["tpot_s"]["mean"] for seed in (3, 4, 5)]
    timed = {one["system"]: one["seconds"] for one in run.answer["systems"]}
    assert run.answer["judged_by"] == "tpot_s" and timed["lru"] == pytest.approx(sum(of_lru) / 3, rel=1e-12)
    for seeds in (0, 1001, 2.5):
        with pytest.raises(moelab.InputError, match="seeds"):
            moelab.run(tiny, seeds=seeds)


def test_a_name_and_its_default_executor(moelab_program):
    settings = {"workload.requests": 1, "workload.output_tokens": 4}
    expected = program_result(moelab_program, "zipmoe-orin", "--system", "zipmoe-lru", "--set",
                              "workload.requests=1", "--set", "workload.output_tokens=4")
    assert moelab.run("zipmoe-orin", system="zipmoe-lru", settings=settings) == expected


def test_simgrid_runs_any_number_of_times(tiny):
    first = moelab.run(tiny, executor="simgrid")
    assert [r["executor"] for r in first.systems] == ["simgrid", "simgrid"]
    assert moelab.run(tiny, executor="simgrid") == first
    fast = moelab.run(tiny, system="lru")
    # Nothing is shared here, so the two executors agree (shared capacities are what SimGrid adds).
    assert first[0]["metrics"]["wall_s"] == pytest.approx(fast["metrics"]["wall_s"], rel=1e-9)


def command_of_the_package():
    """The program `moelab` as pip installed it, beside this Python."""
    return os.path.join(os.path.dirname(sys.executable), "moelab")


def test_the_package_has_the_program(tiny, tmp_path, moelab_program):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(tiny))
    command = command_of_the_package()
    expected = program_result(moelab_program, str(path))
    assert program_result(command, str(path)) == expected
    of_simgrid = program_result(command, str(path), "--executor", "simgrid")
    assert [one["executor"] for one in of_simgrid] == ["simgrid", "simgrid"]
    assert program_result([sys.executable, "-m", "moelab"], str(path)) == expected
    wrong = subprocess.run([command, "rnu"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "no command 'rnu' (did you mean 'run'?)" in wrong.stderr


def test_the_program_of_the_package_ends_with_the_reader_of_its_output():
    done = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" keys scenario | head -1', command_of_the_package()],
                          capture_output=True, text=True)
    assert done.returncode in (0, 128 + signal.SIGPIPE) and done.stderr == ""  # as a program that Python does not start


def test_a_policy_is_begun_from_the_package(tmp_path):
    subprocess.run([command_of_the_package(), "new", "policy", "cache", "mine", "--out", str(tmp_path / "mine")], check=True)
    assert os.path.realpath(os.path.join(moelab.cmake_dir(), "../../..")) in (tmp_path / "mine/CMakeLists.txt").read_text()


def test_manual_pages_and_completions_lie_beside_the_programs():
    share = os.path.join(sys.prefix, "share")
    for file in ("man/man1/moelab.1", "man/man1/moelab-run.1", "bash-completion/completions/moelab", "zsh/site-functions/_moelab",
                 "fish/vendor_completions.d/moelab.fish", "moelab/schemas/scenario.schema.json"):
        assert os.path.getsize(os.path.join(share, file)) > 0


def test_all_that_is_wrong_is_said(tiny):
    del tiny["budget"]
    tiny["sede"] = tiny.pop("seed")
    with pytest.raises(moelab.InputError) as caught:
        moelab.run(tiny)
    what = [p.what for p in caught.value.problems]
    assert len(what) == 2
    assert any("budget" in w for w in what) and any("sede" in w and "seed" in w for w in what)
    assert all(p.text in str(caught.value) for p in caught.value.problems)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("call, fragment", [
    (lambda: moelab.run("zipmoe-orn"), "zipmoe-orin"),
    (lambda: moelab.run("no/such/file.yaml"), "no/such/file.yaml"),
    (lambda: moelab.run("orin-budgets"), "is a sweep, of many scenarios; moelab.sweep runs it"),
    (lambda: moelab.run("zipmoe-orin", system="zipmo"), "zipmoe"),
    (lambda: moelab.run("zipmoe-orin", executor="quick"), "fast or simgrid"),
    (lambda: moelab.run("zipmoe-orin", settings={"budgett": "1 GB"}), "budget"),
    (lambda: moelab.Trace("no-such.safetensors"), "no-such.safetensors"),
    (lambda: moelab.Trace(__file__), "package_test.py"),
    (lambda: moelab.results("no-such.db"), "no-such.db"),
    (lambda: moelab.results(__file__), "package_test.py"),
    (lambda: moelab.sweep({"name": "s", "scenario": "zipmoe-orin", "axes": {"budget": []}}, "x.db"), "budget"),
])
def test_errors_name_what_was_expected(call, fragment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pandas")
    with pytest.raises(moelab.InputError, match=fragment.replace(".", r"\.")):
        call()


def test_errors_travel_between_processes():
    import pickle

    error = moelab.InputError([("f.yaml", 3, 1, "is wrong", "f.yaml:3:1: is wrong")])
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == "f.yaml:3:1: is wrong" and back.problems == error.problems


def test_what_stands_for_texts_and_numbers_is_taken(tiny):
    import types

    expected = moelab.run(tiny, system="lru", settings={"workload.batch": 1})
    assert moelab.run(types.MappingProxyType(tiny), system="lru", settings={"workload.batch": np.int64(1)}) == expected


@pytest.mark.parametrize("call, named", [
    (lambda: moelab.run(b"zipmoe-orin"), "scenario"),
    (lambda: moelab.run("zipmoe-orin", system=b"zipmoe"), "system"),
    (lambda: moelab.run("zipmoe-orin", system=[None]), "system"),
    (lambda: moelab.run("zipmoe-orin", executor=3), "executor"),
    (lambda: moelab.run("zipmoe-orin", settings={"budget": object()}), "object"),
    (lambda: moelab.result(b"x.db", "1"), "db"),
    (lambda: moelab.sweep("orin-budgets", "x.db", cluster=b"tcp://x"), "cluster"),
    (lambda: moelab.sweep("orin-budgets", "x.db", jobs=2.7), "float"),
])
def test_what_stands_for_nothing_is_refused_by_name(call, named):
    with pytest.raises(moelab.InputError, match=named) as caught:
        call()
    assert isinstance(caught.value, TypeError) and caught.value.problems


def test_numbers_out_of_range_are_refused():
    for jobs in (0, 10**12):
        with pytest.raises(moelab.InputError, match="1 to 4096"):
            moelab.sweep("orin-budgets", "x.db", jobs=jobs)
    with pytest.raises(moelab.InputError, match="cluster"):
        moelab.sweep("orin-budgets", "x.db", cluster="")
    for share in (-0.1, 1.1, float("nan"), "2%"):
        with pytest.raises(moelab.InputError, match="from 0 to 1"):
            moelab.sweep("orin-budgets", "x.db", verify_share=share)


def test_no_system_is_not_all_of_them():
    with pytest.raises(moelab.InputError, match="system: expected the names of one system or more"):
        moelab.run("zipmoe-orin", system=[])


def test_characters_beyond_the_basic_plane_come_back(tiny):
    tiny["name"] = "grin \U0001f600 \u00e9"
    tiny["systems"] = tiny["systems"][:1]
    assert moelab.run(tiny)["scenario"] == tiny["name"]
    assert moelab.run(tiny, settings={"name": "\U0001f600"})["scenario"] == "\U0001f600"
    for broken in ("\ud83d", "\udc80"):  # half a character, and a byte of a path that is not UTF-8
        with pytest.raises(moelab.InputError, match="UTF-8"):
            moelab.run({**tiny, "name": broken})
        with pytest.raises(moelab.InputError, match="UTF-8"):
            moelab.run(broken)


def test_what_json_cannot_say_is_refused(tiny):
    tiny["budget"] = float("nan")
    with pytest.raises(moelab.InputError):
        moelab.run(tiny)
    tiny["budget"] = tiny  # within itself
    with pytest.raises(moelab.InputError):
        moelab.run(tiny)


def test_other_threads_run_meanwhile():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    moelab.run("zipmoe-orin", system="zipmoe", settings={"workload.requests": 4})
    end = time.monotonic()
    stop.set()
    thread.join()
    within = [t for t in ticks if begin < t < end]
    assert len(within) >= min(10, (end - begin) / 0.1)


@pytest.mark.parametrize("requests", [500, 10_000])  # after a second the one runs, the other is still drawn
def test_an_interrupt_stops_a_run_whatever_it_is_at(requests):
    code = ("import moelab, sys\nprint('begins', flush=True)\n"
            f"try:\n    moelab.run('zipmoe-orin', settings={{'workload.requests': {requests}}})\n"
            "except KeyboardInterrupt:\n    sys.exit(7)\n")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child.stdout.readline()
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    try:
        assert child.wait(timeout=60) == 7
    finally:
        child.kill()


def tensors_of(path):
    """A safetensors file by its own description: 8 bytes of length, a JSON header, the values."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    kinds = {"U8": "<u1", "U16": "<u2", "U64": "<u8", "F32": "<f4"}
    return {name: np.frombuffer(raw[8 + size + about["data_offsets"][0]:8 + size + about["data_offsets"][1]],
                                kinds[about["dtype"]]).reshape(about["shape"])
            for name, about in header.items() if name != "__metadata__" and about["dtype"] in kinds}


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    """Written here, by the format's description (traces/README.md)."""
    path = tmp_path_factory.mktemp("trace") / "t.safetensors"
    tokens, layers, experts, k = 50, 3, 16, 4
    random = np.random.default_rng(5)
    ids = np.argsort(random.random((tokens, layers, experts)), axis=2)[:, :, :k].astype("<u2")
    scores = -np.sort(-random.random((tokens, layers, k)), axis=2).astype("<f4")
    phases = np.array([1] * 10 + [2] * 10 + [1] * 5 + [2] * 25, dtype="<u1")
    tensors = {"request_offsets": np.array([0, 20, 50], dtype="<u8"), "gate_scores": scores, "expert_ids": ids,
               "phases": phases}
    names = {"<u8": "U64", "<f4": "F32", "<u2": "U16", "|u1": "U8"}
    header, at = {"__metadata__": {"format": "moelab-routing", "format_version": "2", "model": "toy",
                                   "experts": str(experts), "provenance": "a test", "kind": "synthetic"}}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": names[values.dtype.str], "shape": list(values.shape),
                        "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in tensors.values()))
    return path


def test_a_trace_is_the_file(trace_file):
    trace = moelab.Trace(trace_file)
    expected = tensors_of(trace_file)
    assert (trace.tokens, trace.layers, trace.experts, trace.top_k, len(trace)) == (50, 3, 16, 4, 2)
    assert trace.model == "toy" and trace.provenance == "a test" and trace.synthetic
    for name in ("expert_ids", "gate_scores", "request_offsets", "phases"):
        array = getattr(trace, name)
        assert array.dtype == expected[name].dtype and np.array_equal(array, expected[name]), name
    assert trace.decode_offsets.tolist() == [10, 25]  # where the phases turn from 1 to 2
    assert trace.lookahead_ids is None and trace.candidate_ids is None and trace.request_domains is None


def mapped_ranges(path):
    with open("/proc/self/maps") as maps:
        return [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in maps
                if line.rstrip().endswith(str(path))]


def test_a_trace_that_is_cut_while_it_is_open_is_an_error(trace_file, tmp_path):
    file = tmp_path / "cut.safetensors"
    shutil.copy(trace_file, file)
    trace = moelab.Trace(file)
    ids = trace.expert_ids
    os.truncate(file, 0)
    ids.sum()  # of pages that are gone
    with pytest.raises(moelab.InputError, match="was changed while it was read"):
        trace.expert_ids


def test_arrays_lie_in_the_mapped_file_and_keep_it(trace_file):
    ids = moelab.Trace(trace_file).expert_ids
    gc.collect()
    address = ids.__array_interface__["data"][0]
    assert any(a <= address and address + ids.nbytes <= b for a, b in mapped_ranges(trace_file))
    assert not ids.flags.writeable
    with pytest.raises(ValueError):
        ids[0, 0, 0] = 1
    with pytest.raises(ValueError):
        ids.flags.writeable = True
    part = ids[10:20, 1]
    expected = tensors_of(trace_file)["expert_ids"][10:20, 1]
    del ids
    gc.collect()
    assert mapped_ranges(trace_file) and np.array_equal(part, expected)
    del part
    gc.collect()
    assert not mapped_ranges(trace_file)


def test_the_default_trace_has_a_name():
    trace = moelab.Trace("debian-moe-8x32")
    assert trace.experts == 32 and not trace.synthetic
    assert trace.expert_ids.shape == (trace.tokens, trace.layers, trace.top_k)
    assert trace.request_offsets[-1] == trace.tokens


SWEEP = {"name": "s", "axes": {"budget": ["300 kB", "350 kB"], "workload.batch": [1, 2]}, "repeats": 2}


def test_a_sweep_and_its_table(tiny, tmp_path):
    pytest.importorskip("pandas")
    db = tmp_path / "results.db"
    summary = moelab.sweep({**SWEEP, "scenario": tiny}, db, jobs=2)
    assert summary["points"] == 2 * 2 * 2 * 2 and summary["done"] == 16 and summary["failed"] == 0
    assert moelab.sweep({**SWEEP, "scenario": tiny}, db)["there"] == 16
    table = moelab.results(db)
    assert len(table) == 16 and set(table["status"]) == {"done"} and set(table["sweep"]) == {"s"}
    assert sorted(set(table["budget"])) == [300e3, 350e3] and table.attrs["units"] == {"budget": "bytes"}
    assert sorted(set(table["workload.batch"])) == [1, 2] and sorted(set(table["seed"])) == [3, 4]
    for row in table[table["workload.batch"] == 2].to_dict("records"):
        one = moelab.run(tiny, system=row["system"],
                         settings={"budget": f"{row['budget'] / 1e3:g} kB", "workload.batch": 2,
                                   "seed": row["seed"]})
        assert one["metrics"] == moelab.result(db, row["run"])["metrics"]
        assert one["metrics"]["ttft_s"] == row["ttft_s"]
        assert one["metrics"]["tpot_s"]["p50"] == row["tpot_p50_s"]
    assert len(moelab.results(db, "s")) == 16
    with pytest.raises(moelab.InputError, match="no sweep 'x'"):
        moelab.results(db, "x")
    with pytest.raises(moelab.InputError, match="no run 'x'"):
        moelab.result(db, "x")


def test_tables_of_sweeps_that_vary_different_things(tiny, tmp_path):
    pandas = pytest.importorskip("pandas")
    db = tmp_path / "results.db"
    moelab.sweep({"name": "a", "scenario": tiny, "axes": {"budget": ["300 kB"]}}, db)
    moelab.sweep({"name": "b", "scenario": tiny, "axes": {"workload.batch": [1]}}, db)
    table = moelab.results(db)
    assert table["sweep"].tolist() == ["a", "a", "b", "b"]
    assert pandas.isna(table["budget"]).tolist() == [False, False, True, True]


def test_a_policy_is_compiled_with_the_package_alone(tmp_path, monkeypatch):
    templates = os.path.join(SOURCE, "policies", "templates")
    for template, name in (("cache.cpp.in", "own.cpp"), ("CMakeLists.txt.in", "CMakeLists.txt")):
        with open(os.path.join(templates, template)) as text:
            filled = text.read().replace("@name@", "own").replace("@family@", "cache").replace("@prefix@", "nowhere")
        (tmp_path / name).write_text(filled)
    build = str(tmp_path / "build")
    subprocess.run(["cmake", "-GNinja", "-S", str(tmp_path), "-B", build, "-Dmoelab_DIR=" + moelab.cmake_dir()],
                   check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    monkeypatch.setenv("MOELAB_POLICY_PATH", build)
    chosen = {"overrides.system.cache.policy": "own", "workload.requests": 1, "workload.output_tokens": 4}
    own = moelab.run("zipmoe-orin", system="zipmoe-lru", settings=chosen)
    assert own["inputs"]["scenario"]["policy_libraries"] == [os.path.join(build, "libown.so")]
    shipped = moelab.run("zipmoe-orin", system="zipmoe-lru", settings={**chosen, "overrides.system.cache.policy": "lru"})
    assert own["metrics"] == shipped["metrics"]  # it leaves whose last use is longest ago, as LRU does


def test_an_input_error_may_be_a_text():
    error = pickle.loads(pickle.dumps(moelab.InputError("there is no room")))
    assert str(error) == "there is no room"
    assert [problem.what for problem in error.problems] == ["there is no room"]


def test_the_stubs_name_what_there_is():
    import ast

    stub = ast.parse((SOURCE / "python/moelab/__init__.pyi").read_text())
    named = {n.name for n in stub.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    named |= {n.target.id for n in stub.body if isinstance(n, ast.AnnAssign)}
    named |= {a.asname for n in stub.body if isinstance(n, ast.ImportFrom) and n.level > 0 for a in n.names}
    named = {name for name in named if not name.startswith("_") or name == "__version__"}
    assert named == set(moelab.__all__)
    members = next(n for n in stub.body if isinstance(n, ast.ClassDef) and n.name == "Trace").body
    assert {n.name for n in members if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")} == \
        {n for n in dir(moelab.Trace) if not n.startswith("_")}
    for name in named:
        assert getattr(moelab, name) is not None
    units = ast.parse((SOURCE / "python/moelab/units.pyi").read_text())
    assert {n.name for n in units.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))} == set(moelab.units.__all__)


def test_the_stubs_take_what_the_functions_take():
    import ast
    import inspect

    stub = ast.parse((SOURCE / "python/moelab/__init__.pyi").read_text())
    for function in (n for n in stub.body if isinstance(n, ast.FunctionDef)):
        names = [argument.arg for argument in function.args.args]
        taken = inspect.signature(getattr(moelab, function.name)).parameters
        assert names == list(taken), function.name
        first = len(names) - len(function.args.defaults)
        for name, default in zip(names[first:], function.args.defaults):
            assert ast.literal_eval(default) == taken[name].default, (function.name, name)


def test_a_cache_learns(tmp_path):
    done = subprocess.run([sys.executable, str(SOURCE / "python/examples/learned_cache.py")], check=True, cwd=tmp_path,
                          stdout=subprocess.PIPE, text=True)
    hits = {line.split()[0]: float(line.split()[2]) for line in done.stdout.splitlines() if " finds " in line}
    assert set(hits) == {"lru", "lfu", "learned", "belady"}
    assert hits["learned"] > max(hits["lru"], hits["lfu"])  # on requests that it has not seen
    assert hits["belady"] > hits["learned"]


def test_the_example_runs(tmp_path):
    pytest.importorskip("pandas")
    environment = {**os.environ, "MOELAB_EXAMPLE_REQUESTS": "1"}
    subprocess.run([sys.executable, str(SOURCE / "python/examples/what_if.py")], check=True, cwd=tmp_path,
                   env=environment, stdout=subprocess.DEVNULL)


def test_the_page_runs_as_it_stands(tmp_path):
    pytest.importorskip("pandas")
    page = (SOURCE / "docs/python.md").read_text()
    code = page[page.index("```python\n") + len("```python\n"):]
    done = subprocess.run([sys.executable, "-c", code[:code.index("```")]], check=True, cwd=tmp_path, stdout=subprocess.PIPE,
                          text=True)
    assert "is the fastest of 2 systems" in done.stdout and "tpot < 60 ms holds for budget of zipmoe-lru from " in done.stdout
    assert {line.split()[0] for line in done.stdout.splitlines()[-3:]} == {"lru", "mine", "belady"}
