"""What the package's functions return: the program's JSON, its table, its picture, its answer; units; progress."""

import fcntl
import json
import os
import pickle
import pty
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

pytest.importorskip("numpy")
moelab = pytest.importorskip("moelab")
pytest.importorskip("moelab._native", reason="the extension is not built")

from conftest import SOURCE

SHORT = {"workload.requests": 1, "workload.output_tokens": 4}
SET = ["--set", "workload.requests=1", "--set", "workload.output_tokens=4"]


def printed(program, *arguments):
    done = subprocess.run([program, *arguments, "--format", "json"], capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def run_of_two():
    return moelab.run("zipmoe-orin", system=["zipmoe-lru", "zipmoe-belady"], settings=SHORT)


def test_every_function_returns_what_its_command_prints(moelab_program, run_of_two, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(run_of_two.systems))
    explained = printed(moelab_program, "explain", str(path))
    assert moelab.explain(path) == explained
    of_object = moelab.explain(run_of_two)
    assert [one.pop("file") for one in of_object["systems"]] == ["the result", "the result"]
    for one in explained["systems"]:
        del one["file"]
    assert of_object == explained
    assert moelab.tune("budget", "zipmoe-orin", system="zipmoe-lru", max="tokens_per_s", from_=moelab.GB(16), to="20 GB",
                       step=moelab.GB(2), points=2, settings=SHORT) == printed(
        moelab_program, "tune", "budget", "zipmoe-orin", "--system", "zipmoe-lru", "--max", "tokens_per_s", "--from", "16 GB",
        "--to", "20 GB", "--step", "2 GB", "--points", "2", *SET)
    assert moelab.advise("qwen3-30b-a3b", {"gpu": "apple-m4-max", "ram": moelab.GiB(64)}, runtime=["mlx"], policies=False) == \
        printed(moelab_program, "advise", "--model", "qwen3-30b-a3b", "--gpu", "apple-m4-max", "--ram", "64 GiB", "--runtime",
                "mlx", "--no-policies")
    assert moelab.check("zipmoe-orin", {"budget": moelab.GB(16)}) == printed(
        moelab_program, "check", "zipmoe-orin", "--set", "budget=16 GB")
    assert moelab.models()["models"] == printed(moelab_program, "models")
    assert moelab.devices()["devices"] == printed(moelab_program, "devices")
    assert moelab.load("expert-parallel-qwen3", rates=[1, 2.5], requests=20, seeds=1) == printed(
        moelab_program, "load", "expert-parallel-qwen3", "--rates", "1,2.5", "--requests", "20", "--seeds", "1")


def test_a_report_of_results_and_of_a_store(tiny, tmp_path, moelab_program):
    run = moelab.run(tiny)
    written = moelab.report([run, moelab.run(tiny, system="lru")], tmp_path / "page.html", title="Two tiny systems")
    page = (tmp_path / "page.html").read_text()
    assert "Two tiny systems" in page and written["page"] == str(tmp_path / "page.html")
    assert [result["system"] for result in written["results"]] == ["lru", "fifo", "lru"]
    db = tmp_path / "results.db"
    moelab.sweep({"name": "s", "scenario": tiny, "axes": {"budget": ["300 kB", "350 kB"]}}, db)
    of_store = moelab.report(db, tmp_path / "store.html", sweep="s")
    assert (tmp_path / "store.html").exists() and len(of_store["results"]) == 4


def test_frames_have_a_row_for_what_the_json_has(run_of_two, tiny):
    pandas = pytest.importorskip("pandas")
    frame = run_of_two.frame()
    assert frame["system"].tolist() == ["zipmoe-lru", "zipmoe-belady"]
    assert frame["tpot_p90_s"].tolist() == [one["metrics"]["tpot_s"]["p90"] for one in run_of_two.systems]
    explained = moelab.explain(run_of_two)
    table = explained.frame()
    assert len(table) == sum(len(one["infinitely_fast"]) for one in explained.systems) and set(table["system"]) == set(frame["system"])
    tuned = moelab.tune("budget", "zipmoe-orin", system="zipmoe-lru", min="tpot", from_="16 GB", to="20 GB", step="2 GB", points=2,
                        settings=SHORT)
    points = tuned.frame()
    assert points["in_base_units"].tolist() == sorted(points["in_base_units"]) and points["in_base_units"].min() == 16e9
    for value, seconds in zip(points["value"], points["metric"]):  # a search's points are runs
        again = moelab.run("zipmoe-orin", system="zipmoe-lru", settings={**SHORT, "budget": value})
        assert again["metrics"]["tpot_s"]["mean"] == seconds
    memory = moelab.check("zipmoe-orin").frame().set_index("system")
    parts = ["non_expert", "kv_cache", "activations", "staging", "prefetch", "expert_cache"]
    assert memory[[f"{part}_bytes" for part in parts]].sum(axis=1).tolist() == pytest.approx([20e9] * len(memory))
    loaded = moelab.load("expert-parallel-qwen3", rates=[1, 2], requests=20, seeds=2)
    assert str(loaded.answer).startswith("vllm") and str(loaded.answer).splitlines()[0] in loaded._repr_html_()
    curve = loaded.frame()
    assert len(curve) == len(loaded.systems) * 2 * 2 and curve["rate_per_s"].tolist()[:4] == [1, 1, 2, 2]
    assert curve["ttft_s"][0] == loaded.systems[0]["points"][0]["seeds"][0]["ttft_s"]["mean"]
    assert curve["ttft_p95_s"][0] == loaded.systems[0]["points"][0]["seeds"][0]["ttft_s"]["p95"]
    models = moelab.models().frame().set_index("name")
    assert models.loc["mixtral-8x7b", ["experts", "top_k"]].tolist() == [8, 2]  # its config.json
    tiny["budget"] = "20 kB"  # less than the model's other weights: nothing is served
    assert pandas.isna(moelab.run(tiny, system="lru").frame()["tpot_s"][0])


def test_pictures_are_of_the_table(run_of_two):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    matplotlib.use("Agg")
    bars = run_of_two.plot()
    assert [bar.get_width() for bar in bars.patches] == run_of_two.frame()["tpot_s"].tolist()
    assert [label.get_text() for label in bars.get_yticklabels()] == ["zipmoe-lru", "zipmoe-belady"]
    compared = moelab.compare("zipmoe-orin", ["lru"], system="zipmoe-lru", seeds=1, settings=SHORT, budgets=[moelab.GB(16), 20])
    lines = {line.get_label(): line for line in compared.plot().lines}
    assert set(lines) == {"lru", "belady"} and lines["lru"].get_xdata().tolist() == [16e9, 20e9]
    tuned = moelab.tune("budget", "zipmoe-orin", system="zipmoe-lru", min="tpot", from_="16 GB", to="18 GB", step="1 GB", points=2,
                        settings=SHORT)
    axes = tuned.plot()
    assert axes.get_xlabel() == "budget, GB" and axes.get_ylabel() == "tpot, s"
    assert axes.lines[0].get_xdata().tolist() == sorted(axes.lines[0].get_xdata()) and axes.lines[0].get_xdata()[0] == 16
    with pytest.raises(moelab.InputError, match="did you mean 'ttft_s'"):
        run_of_two.plot("ttft")
    with pytest.raises(moelab.InputError, match="devices has nothing to draw"):
        moelab.devices().plot()


def test_a_notebook_shows_the_answer_and_the_table(tiny):
    tiny["systems"][0]["name"] = "lru<b>&amp;"
    run = moelab.run(tiny)
    page = run._repr_html_()
    assert "lru&lt;b&gt;&amp;amp;" in page and "<b>" not in page
    assert page.count("<tr>") == 1 + len(run.systems) and "<th>TPOT ms</th>" in page
    assert str(run.answer).splitlines()[0].startswith(("fifo is the fastest", "lru<b>&amp; is the fastest"))
    assert f"<td>{run.systems[1]['metrics']['ttft_s']:.4g}</td>" in page
    for figures in (moelab.models(), moelab.check("zipmoe-orin"), moelab.check({"name": "x"})):
        assert figures._repr_html_().count("<tr>") > 1


def test_an_answer_has_no_control_characters_for_a_terminal():
    assert str(moelab.Answer({"text": "a\x1b[2Jb\u009bc\nd ± é\n"})) == "a?[2Jb?c\nd ± é"


def test_figures_are_mappings_as_they_were(run_of_two, tiny):
    one = moelab.run(tiny, system="lru")
    assert isinstance(one, dict) and one["metrics"]["ttft_s"] > 0 and json.loads(json.dumps(one)) == one
    assert one["systems"] == one.systems == [one] and one.get("system") == "lru"
    for figures in (one, run_of_two):
        back = pickle.loads(pickle.dumps(figures))
        assert back == figures == figures.copy() and back.answer == figures.answer and type(back) is moelab.Figures
    with pytest.raises(KeyError, match="each of its systems has its own"):
        run_of_two["metrics"]


def test_check_says_what_is_wrong_and_raises_nothing(tiny, tmp_path):
    assert moelab.check(tiny)["valid"] is True
    del tiny["budget"]
    of_dict = moelab.check(tiny)
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(tiny))
    of_file = moelab.check(path)
    assert of_dict["valid"] is of_file["valid"] is False
    assert [p["what"] for p in of_dict["problems"]] == [p["what"] for p in of_file["problems"]]
    assert of_dict["problems"][0]["file"] == "the scenario" and "budget" in of_dict["problems"][0]["what"]
    assert moelab.check(tiny, {"budget": "300 kB"})["valid"] is True
    sweep = {"name": "s", "scenario": "zipmoe-orin", "systems": ["zipmoe-lru"], "axes": {"budget": ["16 GB", "20 GB"]}}
    assert moelab.check(sweep)["points"] == 2
    sweep["axes"] = {"budgett": ["16 GB"]}
    assert moelab.check(sweep)["problems"] and "/tmp" not in json.dumps(moelab.check(sweep))


def test_relative_names_of_a_dict_are_those_of_this_folder(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(json.dumps(tiny["device"]))
    tiny["device"] = "./mine.yaml"
    assert moelab.check(tiny)["valid"] is True
    tuned = moelab.tune("workload.batch", tiny, system="lru", max="tokens_per_s", from_=1, to=2)
    assert {row["value"] for row in tuned["points"]} == {"1", "2"}


@pytest.mark.parametrize("call, fragment", [
    (lambda: moelab.explain("no-such.json"), "no-such.json"),
    (lambda: moelab.explain({"name": "x"}), "the result: has no 'scenario'"),
    (lambda: moelab.tune("budgett", "zipmoe-orin", max="tokens_per_s"), "did you mean 'budget'"),
    (lambda: moelab.tune("budget", {"name": "x"}, max="tokens_per_s"), "the scenario"),
    (lambda: moelab.advise("qwen3-30b-a3c", gpu="apple-m4-max"), "qwen3-30b-a3b"),
    (lambda: moelab.load("chat-and-cod", rates=1), "chat-and-code"),
    (lambda: moelab.report("no-such.json", "x.html"), "no-such.json"),
    (lambda: moelab.load("--help", rates=1), "--help"),
    (lambda: moelab.load("a\0b", rates=1), "null byte"),
    (lambda: moelab.load("chat-and-code", rates=[object()]), "rates"),
    (lambda: moelab.models().plot("x"), "expected a column of numbers"),
])
def test_what_the_program_refuses_is_an_input_error(call, fragment):
    pytest.importorskip("pandas")
    with pytest.raises(moelab.InputError, match=fragment.replace(".", r"\.")) as caught:
        call()
    assert caught.value.problems


def test_units_are_those_of_the_reader(tiny):
    expected = moelab.run(tiny, system="lru", settings={"budget": "300 kB"})["metrics"]
    for budget in (moelab.kB(300), moelab.units.B(300_000), moelab.MB(0.3), moelab.kB(100) * 3, 2 * moelab.kB(150), moelab.kB(600) / 2):
        assert moelab.run(tiny, system="lru", settings={"budget": budget})["metrics"] == expected
    tiny["budget"] = moelab.kB(300)
    assert moelab.run(tiny, system="lru")["metrics"] == expected
    assert str(moelab.GB(16)) == "16 GB" and str(moelab.units.GB_per_s(3.5)) == "3.5 GB/s" and moelab.GB(16) == moelab.GB(16)
    for wrong in ("16", None, float("nan"), float("inf"), [1]):
        with pytest.raises(moelab.InputError, match="units"):
            moelab.GB(wrong)
    with pytest.raises(moelab.InputError, match="not 0"):
        moelab.GB(1) / 0
    for name in ("budget", "device.ssd.read"):  # of another dimension
        with pytest.raises(moelab.InputError):
            moelab.run(tiny, settings={name: moelab.units.FLOP(1)})


def on_a_terminal(code):
    """(exit status, what a Python writes to its standard error, which is a terminal)."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:  # a container without /dev/pts
        pytest.skip(f"no pseudo-terminal: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))  # a new one has no size
    child = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the last writer is gone
            part = b""
        if not part:
            break
        said += part
    os.close(ours)
    return child.wait(), said.decode(errors="replace")


@pytest.mark.parametrize("call", [
    "run('zipmoe-orin', system='zipmoe', settings={'workload.requests': 60})",
    "tune('budget', 'zipmoe-orin', system='zipmoe', max='tokens_per_s', settings={'workload.requests': 8})",
])
def test_a_bar_is_on_terminals_alone(call):
    pytest.importorskip("tqdm")
    status, said = on_a_terminal("import moelab; moelab." + call)
    assert status == 0 and call.split("(")[0] in said
    piped = subprocess.run([sys.executable, "-c", "import moelab; moelab." + call], capture_output=True, check=True)
    assert piped.stderr == b"" and piped.stdout == b""
    hidden = "import sys; sys.modules['tqdm'] = sys.modules['tqdm.auto'] = None; "
    assert on_a_terminal(hidden + "import moelab; moelab." + call) == (0, "")


def test_an_interrupt_stops_the_program(tmp_path):
    code = ("import moelab, sys\nprint('begins', flush=True)\n"
            "try:\n    moelab.tune('budget', 'zipmoe-orin', max='tokens_per_s', settings={'workload.requests': 10000})\n"
            "except KeyboardInterrupt:\n    sys.exit(7)\n")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child.stdout.readline()
    time.sleep(1)
    children = open(f"/proc/{child.pid}/task/{child.pid}/children").read().split()
    assert children
    child.send_signal(signal.SIGINT)
    try:
        assert child.wait(timeout=60) == 7
    finally:
        child.kill()
    assert not [one for one in children if os.path.exists(f"/proc/{one}")]


def test_the_tutorial_runs(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    for needed in ("ipykernel", "pandas", "matplotlib"):
        pytest.importorskip(needed)
    notebook = nbformat.read(SOURCE / "python/examples/tutorial.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # as it is shipped
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert shown.count("image/png") >= 2 and shown.count("text/html") >= 3
    assert not [output for cell in notebook.cells for output in cell.get("outputs", []) if output.get("name") == "stderr"
                and "Warning" in output["text"]]
