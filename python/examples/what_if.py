# %% [markdown]
# # How much memory does this model need?
# DeepSeek-V2-Lite on a Jetson AGX Orin, under three ways of keeping experts. Each `# %%` is a cell in editors that
# know them; `python3 what_if.py` runs all. Needs moelab with pandas: `pip install '.[pandas]'` in the source folder.

# %% One run
import os

import moelab

requests = int(os.environ.get("MOELAB_EXAMPLE_REQUESTS", 4))  # fewer: sooner, and less sure
run = moelab.run("zipmoe-orin", system="zipmoe-lru",
                 settings={"budget": "20 GB", "workload.requests": requests})
print(f"time to first token {run['metrics']['ttft_s']:.2f} s, "
      f"time per token {1e3 * run['metrics']['tpot_s']['mean']:.1f} ms")
for warning in run["warnings"]:
    print("note:", warning)

# %% Nothing runs on an input with a mistake, and all mistakes are said at once
try:
    moelab.run("zipmoe-orin", settings={"budgett": "20 GB", "workload.batch": "many"})
except moelab.InputError as error:
    for problem in error.problems:
        print(problem)

# %% A sweep: every combination of the axes, in processes of their own; run again, it adds what is missing
sweep = {
    "name": "budgets",
    "question": "How much memory does each way of keeping experts need?",
    "scenario": "zipmoe-orin",
    "set": {"workload.requests": requests},
    "systems": ["zipmoe", "zipmoe-lru", "zipmoe-belady"],
    "axes": {"budget": {"linspace": {"from": "16 GB", "to": "32 GB", "points": 3}}},
}
summary = moelab.sweep(sweep, "what_if.db")
print(summary["done"], "points now,", summary["there"], "were there")

# %% Its table: one row a point, budgets in bytes
table = moelab.results("what_if.db", "budgets")
tpot = table.pivot(index="budget", columns="system", values="tpot_s") * 1e3
tpot.index = tpot.index / 1e9
print(tpot.round(1).rename_axis("GB").to_string())

# %% What the perfect cache would gain over LRU, for each budget
print((1 - tpot["zipmoe-belady"] / tpot["zipmoe-lru"]).round(3).to_string())

# %% A routing trace as arrays: how often a token's experts are those of the token before
import numpy as np

trace = moelab.Trace("debian-moe-8x32")
ids = trace.expert_ids  # [tokens, layers, top_k], in the mapped file
inside = np.setdiff1d(np.arange(1, trace.tokens), trace.request_offsets)
within = (ids[inside, :, :, None] == ids[inside - 1, :, None, :]).any(axis=3).mean(axis=(0, 2))
chance = trace.top_k / trace.experts
print("used again by the next token of the request, by layer:", within.round(2).tolist(), f"(by chance {chance:.2f})")
