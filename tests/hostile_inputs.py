"""The inputs that hostile.py starts from: for each kind small files that are right, and commands that read them."""
import dataclasses
import gzip
import io
import json
import pathlib
import struct
import zipfile

MODEL = """name: tiny
hidden: 32
vocab: 100
layers: 2
attention: {heads: 4, head_dim: 8}
moe: {experts: 4, top_k: 2, width: 48}
"""
DEVICE = """name: tiny-device
title: Tiny device
sources:
  test: {kind: measured, text: a test}
memory:
  total: {value: 4 MB, source: test}
  system_reserve: {value: 0 B, source: test}
cpu:
  threads: {value: 4, source: test}
  dispatch: {value: 0 us, source: test}
ssd:
  read: {latency: 5 us, rate: 500 MB/s, source: test}
  slowdown_while_decompressing: {value: 1, source: test}
  readers: {value: [1, 2], source: test}
page_cache:
  read: {points: [[0 B, 1 us], [1 MB, 250 us]], source: test}
codecs:
  lz: {ratio: {value: 0.5, source: test}, decompress: {value: 400 MB/s, source: test}}
gpu:
  peak: {value: 10 GFLOP/s, source: test}
  flops_efficiency: {value: 0.5, source: test}
  launch: {value: 2 us, source: test}
  memory: {value: 3 MB, source: test}
  reserve: {value: 0 B, source: test}
  bandwidth: {value: 1 GB/s, source: test}
  link:
    to_device: {latency: 3 us, rate: 400 MB/s, source: test}
    to_host: {latency: 3 us, rate: 400 MB/s, source: test}
"""
SYSTEM = """name: pooled
weights: compressed
codec: lz
shards: 2
threads: 2
page_cache: true
schedule: {policy: cache-affinity}
cache: {policy: zipmoe, pools: [F, S]}
planning: {policy: fixed, ratios: {F: 0.5, S: 0.5}}
"""
SCENARIO = """name: tiny-scenario
model: tiny.yaml
device: device.yaml
budget: 300 kB
seed: 3
workload:
  batch: 2
  requests: 4
  prompt_tokens: 3
  output_tokens: 5
systems:
  - pooled.yaml
  - name: inline
    weights: whole
    page_cache: false
    cache: {policy: lru}
"""
SERVING = """name: served
model: tiny.yaml
device: device.yaml
budget: 1 MB
seed: 3
workload:
  batch: 2
  requests: 6
  prompt_tokens: 3
  output_tokens: 5
  arrivals_per_s: 100
systems:
  - {name: whole, weights: whole, page_cache: false, cache: {policy: lru}, batching: {policy: continuous}}
"""
LOGGED = SERVING.replace("  requests: 6\n  prompt_tokens: 3\n  output_tokens: 5\n  arrivals_per_s: 100\n",
                         "  request_log: log.csv\n")
CLUSTER = """name: two
title: Two servers
sources:
  test: {kind: measured, text: a test}
servers:
  - {name: left, device: device.yaml}
  - {name: right, device: device.yaml, gpus: 2, out: {value: 2 MB/s, source: test}}
network:
  topology: star
  bandwidth: {value: 1 MB/s, source: test}
  latency: {value: 10 us, source: test}
"""
PLACED = """name: placed
weights: placed
placement: {policy: prism}
migration: {every: 1 s, horizon: 2 s}
detection: 10 ms
"""
CLUSTERED = """name: clustered
model: tiny.yaml
cluster: cluster.yaml
budget: 300 kB
workload:
  tasks:
    - {name: code, prompt_tokens: [3, 5], output_tokens: 2}
    - {name: talk, prompt_tokens: 4, output_tokens: 3}
  servers:
    - {tasks: {code: 3, talk: 1}, requests: 4, arrivals_per_s: 10}
    - {tasks: {talk: 1}, requests: 2}
faults:
  events:
    - {at: 1 ms, event: leaves, server: right}
    - {at: 2 ms, event: returns, server: right}
systems: [placed.yaml]
"""
SWEEP = """name: small
scenario: scenario.yaml
axes:
  budget: [300 kB, 400 kB]
  workload.output_tokens: {linspace: {from: 2, to: 4, points: 2, whole: true}}
where: "budget < 1 MB"
limits: {time: 10 s, memory: 900 TB}
"""
RUNTIME = """name: own
title: Own
based_on: llama.cpp-cuda
sources:
  test: {kind: measured, text: a test}
constants:
  launch: {value: 3 us, source: test}
  step: {value: 1 ms, source: test}
  dense_bandwidth: {value: 0.5, source: test}
  expert_tokens: {value: 10, source: test}
classes:
  ampere: {slowdown: {value: 1.5, source: test}}
"""
LOG = "arrival_s,prompt_tokens,output_tokens\n0,3,2\n0.01,4,3\n0.02,2,2\n"
CSV = "request,token,layer,expert,weight\n" + "".join(
    f"{r},{t},{layer},{(t + k) % 4},0.{5 - k}\n" for r in (0, 1) for t in range(3) for layer in (0, 1) for k in (0, 1))
JSONL = '{"experts": [[[1, 2]], [[3, 0]]], "prompt": 1}\n{"experts": [[[0, 2]], [[3, 1]]], "prompt": 1}\n'
VLLM = ('{"prompt_routed_experts": [[[1, 2]], [[3, 0]]], "choices": [{"routed_experts": [[[0, 1]], [[0, 0]]]}],'
        ' "usage": {"prompt_tokens": 2, "completion_tokens": 2}}\n')
COUNTS = "layer,expert,count\n0,0,5\n0,1,6\n1,0,7\n1,3,2\n"
MOONCAKE = ('{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}\n'
            '{"timestamp": 27482.5, "input_length": 7, "output_length": 5}\n')
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n"
SHAREGPT = json.dumps([{"id": "a_0", "conversations": [
    {"from": "human", "value": "What is a mixture of experts?"}, {"from": "gpt", "value": "A layer whose tokens choose."},
    {"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So that each token runs through few weights."}]}], indent=1)
HF = json.dumps({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64,
                 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                 "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "intermediate_size": 128,
                 "vocab_size": 1000, "torch_dtype": "bfloat16", "decoder_sparse_step": 1, "mlp_only_layers": [],
                 "tie_word_embeddings": False, "norm_topk_prob": True}, indent=1)
WORLD = json.dumps({
    "world_format": 1, "version": "1", "question": "How near?", "answer": "Near.", "files": ["points.csv"], "tolerance": 0.3,
    "groups": [{"name": "one GPU, decode", "rows": 1, "median_error": 0.1, "median_error_source_left_out": 0.2,
                "nine_in_ten_factor_less_1": 0.25, "median_error_null_model": 2.0, "within_tolerance": 1.0}],
    "rows": [{"id": "a", "model": "tiny", "weights": "bf16", "machine": "a100-80gb", "gpus": 1, "runtime": "vllm", "metric": "decode",
              "unit": "tok/s", "source": "a page", "group": "one GPU, decode", "phase": "decode", "measured": 100.0, "predicted": 90.0,
              "predicted_source_left_out": 80.0, "null_model": 300.0, "bound_by": "weights", "counted": True, "why_not": None}]}, indent=1)
JSON = ["--format", "json"]


def npy(values, shape, kind="<i4"):
    """A NumPy array's file."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}i", *values)


def npz():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ids.npy", npy([1, 2, 3, 0, 2, 1, 0, 3], (2, 2, 2)))
        archive.writestr("offsets.npy", npy([0, 1], (2,)))
    return out.getvalue()


@dataclasses.dataclass
class Kind:
    """`hostile`: the files that are changed; `values`: options of the command line that are; `keeps`: whether a
    run that fails may leave files."""
    name: str
    hostile: list
    commands: list
    values: list = dataclasses.field(default_factory=list)
    keeps: bool = False
    weight: int = 1


def import_of(form, name, *options):
    return ["trace", "import", form, name, *options, "--out", "out.st"]


RUN = ["run", "scenario.yaml", *JSON]
LOAD = ["load", "served.yaml", "--requests", "4", "--seeds", "1", "--jobs", "1", *JSON]
LOAD_LOG = ["load", "logged.yaml", "--seeds", "1", "--jobs", "1", *JSON]
KINDS = [
    Kind("scenario", ["scenario.yaml"], [RUN, RUN, ["check", "scenario.yaml"], ["run", "scenario.yaml"],
                                         [*RUN, "--executor", "simgrid"]], weight=4),
    Kind("serving", ["served.yaml"], [["run", "served.yaml", *JSON], ["run", "served.yaml"]], weight=3),
    Kind("system", ["pooled.yaml"], [RUN], weight=2),
    Kind("model", ["tiny.yaml"], [RUN, ["check", "scenario.yaml"]], weight=2),
    Kind("device", ["device.yaml"], [RUN, RUN, ["run", "served.yaml", *JSON], [*RUN, "--executor", "simgrid"]], weight=4),
    Kind("cluster", ["cluster.yaml", "clustered.yaml", "placed.yaml"],
         [["run", "clustered.yaml", *JSON], ["run", "clustered.yaml", *JSON],
          ["run", "clustered.yaml", *JSON, "--executor", "simgrid"], ["plan", "placement", "clustered.yaml"]], weight=4),
    Kind("sweep", ["sweep.yaml"], [["check", "sweep.yaml"], ["sweep", "sweep.yaml", "--db", "new.db", "--jobs", "1"]],
         keeps=True, weight=2),
    Kind("runtime", ["own.yaml"], [["run", "served.yaml", *JSON, "--set", "runtime=own.yaml"]], weight=2),
    Kind("law", ["law.yaml"], [["trace", "generate", "law.yaml", "--tokens", "20", "--out", "out.st"]], weight=2),
    Kind("trace", ["trace.safetensors"], [["trace", "stats", "trace.safetensors"],
                                          ["trace", "slice", "trace.safetensors", "--requests", "0:1", "--out", "out.st"],
                                          ["trace", "export", "trace.safetensors", "--kind", "csv", "--out", "out.csv"],
                                          ["trace", "hits", "trace.safetensors", "--policy", "lru", "--capacity", "2", *JSON]],
         weight=2),
    Kind("tables", ["routing.csv", "routing.csv.gz"],
         [import_of("csv", n, "--request", "request", "--token", "token", "--layer", "layer", "--expert", "expert",
                    "--score", "weight", "--experts", "4") for n in ("routing.csv", "routing.csv.gz")]),
    Kind("lines", ["routing.jsonl", "vllm.jsonl"],
         [import_of("jsonl", "routing.jsonl", "--expert", "experts", "--prompt-tokens", "prompt", "--experts", "4"),
          import_of("vllm", "vllm.jsonl", "--experts", "4", "--drop-last")]),
    Kind("arrays", ["ids.npy", "ids.npz"], [import_of("npy", "ids.npy", "--experts", "4"),
                                            import_of("npz", "ids.npz", "--ids", "ids", "--experts", "4")], weight=2),
    Kind("torch", ["sglang.pt"], [import_of("sglang", "sglang.pt")]),
    Kind("counts", ["counts.csv", "counts.pt", "imatrix.gguf"],
         [import_of("counts", "counts.csv", "--layer", "layer", "--expert", "expert", "--count", "count", "--experts", "4"),
          import_of("counts-pt", "counts.pt"), import_of("imatrix", "imatrix.gguf")]),
    Kind("requests", ["log.csv", "mooncake.jsonl", "azure.csv", "sharegpt.json"],
         [["trace", "import-requests", "sharegpt", "sharegpt.json", "--out", "out.csv"],
          ["trace", "import-requests", "log", "log.csv", "--out", "out.csv"],
          ["trace", "import-requests", "mooncake", "mooncake.jsonl", "--out", "out.csv"],
          ["trace", "import-requests", "azure", "azure.csv", "--out", "out.csv"], ["run", "logged.yaml", *JSON]], weight=2),
    Kind("config", ["config.json"], [["model", "import", "config.json"]], weight=2),
    Kind("gguf", ["model.gguf"], [["model", "import", "model.gguf"]], weight=2),
    Kind("store", ["results.db"], [["results", "results.db"], ["results", "results.db", *JSON],
                                   ["results", "results.db", "--repair", "repaired.db"],
                                   ["report", "results.db", "--out", "out.html"],
                                   ["sweep", "sweep.yaml", "--db", "results.db", "--jobs", "1"]], keeps=True, weight=2),
    Kind("result", ["result.json"], [["report", "result.json", "--out", "out.html"],
                                     ["explain", "result.json", "--system", "inline", *JSON]], weight=2),
    Kind("world", ["world.json"], [["report", "world.json", "--out", "out.html"]]),
    Kind("schedule", ["layer.json"], [["schedule", "layer.json", *JSON], ["schedule", "layer.json"]]),
    Kind("plan", ["plan.json"], [["plan", "zipmoe", "plan.json", *JSON]]),
    Kind("settings", [], [RUN, ["check", "scenario.yaml"]],
         [("--set", v) for v in ("budget=400 kB", "workload.output_tokens=4",
                                 "workload={batch: 1, prompt_tokens: 3, output_tokens: 4}", "seed=4",
                                 "overrides.device.ssd.read.latency=5 us", "systems.0=pooled.yaml",
                                 "systems=[pooled.yaml]", "overrides.system.threads=1", "workload.skew=1.5")], weight=2),
    Kind("load", [], [LOAD], [("--rates", "1,10,100"), ("--rates", "5")]),
    Kind("load-result", ["load.json"], [["report", "load.json", "--out", "out.html"]]),
    Kind("load-set", [], [[*LOAD, "--rates", "10"]], [("--set", "budget=1 MB"), ("--set", "workload.prompt_tokens=4")]),
    Kind("load-file", ["served.yaml", "logged.yaml", "log.csv"],
         [[*LOAD, "--rates", "10,20"], [*LOAD_LOG, "--rates", "100,200"]], weight=3),
    Kind("slo", [], [[*LOAD, "--rates", "10,20"]],
         [("--slo", "ttft p95 < 2 s, tpot p99 < 100 ms"), ("--slo", "e2e mean <= 2 s")]),
    Kind("share", [], [[*LOAD, "--rates", "10,20", "--slo", "ttft p95 < 2 s"]], [("--share", "90")]),
    Kind("where", [], [["results", "results.db", *JSON]],
         [("--where", "tpot_s < 60 ms and system == 'inline'"), ("--sort", "tpot_s"), ("--axis", "budget=300 kB")],
         keeps=True),
    Kind("machine", [], [["advise", "--model", "olmoe-1b-7b", "--no-policies", *JSON]],
         [("--machine", "{gpu: rtx-4090-24gb, gpus: 1, cpu: ryzen-9-7950x, memory: ddr5-6000 x 2, ram: 64 GiB}"),
          ("--gpu", "rtx-4090-24gb")]),
    Kind("part", [], [["advise", "--model", "olmoe-1b-7b", "--no-policies", "--cpu", "ryzen-9-7950x", *JSON]],
         [("--memory", "ddr5-6000 x 2"), ("--ram", "64 GiB")]),
]


class Seeds:
    """Files of every kind, made by hand or by the program in `folder`."""

    def __init__(self, runner, folder, root):
        self.runner, self.folder = runner, folder
        texts = {"tiny.yaml": MODEL, "device.yaml": DEVICE, "pooled.yaml": SYSTEM, "scenario.yaml": SCENARIO,
                 "served.yaml": SERVING, "logged.yaml": LOGGED, "cluster.yaml": CLUSTER, "placed.yaml": PLACED,
                 "clustered.yaml": CLUSTERED, "sweep.yaml": SWEEP, "own.yaml": RUNTIME, "log.csv": LOG,
                 "routing.csv": CSV, "routing.jsonl": JSONL, "vllm.jsonl": VLLM, "counts.csv": COUNTS,
                 "mooncake.jsonl": MOONCAKE, "azure.csv": AZURE, "sharegpt.json": SHAREGPT, "config.json": HF, "world.json": WORLD}
        corpus, zipmoe = root / "tests" / "fuzz" / "corpus", root / "experiments" / "zipmoe"
        self.all = {name: text.encode() for name, text in texts.items()}
        self.all |= {"routing.csv.gz": gzip.compress(CSV.encode()), "ids.npz": npz(),
                     "ids.npy": npy([1, 2, 3, 0, 2, 1, 0, 3], (2, 2, 2)),
                     # The first byte of these is the fuzz target's own.
                     "sglang.pt": (corpus / "sglang" / "sglang_per_token_archive").read_bytes()[1:],
                     "counts.pt": (corpus / "counts_files" / "archive").read_bytes()[1:],
                     "imatrix.gguf": (corpus / "counts_files" / "imatrix").read_bytes()[1:],
                     "model.gguf": (root / "tests" / "models" / "tiny-qwen3moe.gguf").read_bytes()[:1 << 20],
                     "law.yaml": (root / "configs" / "laws" / "debian-moe-8x32.yaml").read_bytes(),
                     "layer.json": (zipmoe / "layer.json").read_bytes(), "plan.json": (zipmoe / "plan.json").read_bytes()}
        for name, content in self.all.items():
            (folder / name).write_bytes(content)
        self.make("trace.safetensors", import_of("csv", "routing.csv", "--request", "request", "--token", "token",
                                                 "--layer", "layer", "--expert", "expert", "--score", "weight",
                                                 "--experts", "4"), "out.st")
        self.make("results.db", ["sweep", "sweep.yaml", "--db", "results.db", "--jobs", "1"])
        self.make("result.json", ["run", "scenario.yaml", "--out", "result.json"])
        self.make("load.json", [*LOAD, "--rates", "5,50", "--out", "load.json"])
        self.files = {kind.name: self.needed(kind) for kind in KINDS}
        self.check()

    def make(self, name, command, written=None):
        status, _, err = self.runner(command, self.folder)
        if status != 0:
            raise SystemExit(f"moelab {' '.join(command)}: {err.decode(errors='replace')}")
        self.all[name] = (self.folder / (written or name)).read_bytes()
        (self.folder / name).write_bytes(self.all[name])

    def needed(self, kind):
        """The kind's files and what they name: all small ones, where a scenario is among them."""
        words = set(kind.hostile) | {word for command in kind.commands for word in command}
        if any(word.endswith(".yaml") for word in words):
            words |= {name for name in self.all if name.endswith(".yaml")} | {"log.csv"}
        return {name: content for name, content in self.all.items() if name in words}

    def check(self):
        """That every command succeeds on what is right: else what is changed would not be read."""
        for kind in KINDS:
            for command in kind.commands:
                for extra in kind.values or [()]:
                    self.check_one([*command, *extra])

    def check_one(self, arguments):
        for name in ("out.st", "out.csv", "out.html", "new.db", "repaired.db"):
            pathlib.Path(self.folder, name).unlink(missing_ok=True)
        status, _, err = self.runner(arguments, self.folder)
        if status != 0:
            raise SystemExit(f"moelab {' '.join(arguments)} ends with {status}: {err.decode(errors='replace')[:300]}")

    def any(self, random):
        return [self.all[random.choice(sorted(self.all))]]
