#!/usr/bin/env python3
"""traces/capture_hf.py against the real library: tiny random models of every family.

What is expected comes from another way through the model than the recorder's: each prompt alone, without padding, key
and value caches or generate(), one full pass over prompt and greedy tokens; there the model's own output_router_logits,
and the choice by capture_reference.py. Look-ahead is recomputed from what enters the MoE blocks.

Exits with 77 (skipped) where the Python packages are not installed (capture_environment.sh installs them).
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import tracemalloc
import unittest
from pathlib import Path
from unittest import mock

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "traces"), str(Path(__file__).resolve().parent)]
os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import numpy as np
    import tokenizers
    import torch
    import transformers
    from safetensors import safe_open
except ImportError as missing:
    print(f"skipped: {missing} (tests/traces/capture_environment.sh install)")
    sys.exit(77)

import capture_hf  # noqa: E402
import capture_models  # noqa: E402
import capture_reference  # noqa: E402
from capture import routers, trace_writer  # noqa: E402
from capture.errors import CaptureError  # noqa: E402
from capture.recorder import Options  # noqa: E402

NO_EXPERT = 65535
PREFILL, DECODE = 1, 2
PROMPTS = [[5, 17, 3, 44, 8], [9, 61, 23, 7, 80, 31, 2, 12, 55], [70, 4, 29]]
NEW_TOKENS = 5

torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()


class Trace:
    def __init__(self, path):
        with safe_open(path, "np") as file:
            self.metadata = file.metadata()
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}

    def __getattr__(self, name):
        return self.tensors[name]

    def request(self, i):
        return slice(int(self.request_offsets[i]), int(self.request_offsets[i + 1]))


def record(model, prompts, folder, name="trace.safetensors", domains=None, **options):
    path = Path(folder) / name
    requests = [capture_hf.Request(p, domains[i] if domains else None) for i, p in enumerate(prompts)]
    options = {"max_new_tokens": NEW_TOKENS, "score_dtype": "float32"} | options
    capture_hf.capture(model, requests, path, Options(**options), model_name="tiny", provenance="test")
    return Trace(path)


@torch.no_grad()
def greedy(model, prompt, count, eos=None):
    """Prompt and tokens, by full passes; ends with eos, which is a token too."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + count and (len(tokens) == len(prompt) or tokens[-1] != eos):
        tokens.append(int(model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].argmax()))
    return tokens


@torch.no_grad()
def full_pass(model, blocks, run):
    """The output of run(), and what entered each of the MoE blocks meanwhile, [tokens, hidden]."""
    inputs = {}
    hooks = [
        block.register_forward_pre_hook(lambda _m, args, i=i: inputs.update({i: args[0].reshape(-1, args[0].shape[-1]).numpy()}))
        for i, block in enumerate(blocks)
    ]
    out = run()
    for hook in hooks:
        hook.remove()
    return out, [inputs[i] for i in range(len(blocks))]


def logits_of(router, hidden):
    bias = getattr(router, "bias", None)
    return hidden @ router.weight.detach().numpy().T + (0 if bias is None else bias.detach().numpy())


class DecoderTest(unittest.TestCase):
    maxDiff = None

    def expected(self, case, model, tokens):
        """ids, weights, scores, lookahead of one sequence, [tokens, layers, ...]."""
        layers = [model.model.layers[i] for i in case.layers]
        routers_ = [layer.get_submodule(case.router) for layer in layers]
        blocks = [layer.get_submodule(case.router.rpartition(".")[0]) for layer in layers]
        run = lambda: model(input_ids=torch.tensor([tokens]), use_cache=False, output_router_logits=True)  # noqa: E731
        out, hidden = full_pass(model, blocks, run)
        own = [logits.reshape(len(tokens), -1).float().numpy() for logits in out.router_logits]
        self.assertEqual(len(own), len(layers))
        rows = []
        for t in range(len(tokens)):
            row = []
            for i, router in enumerate(routers_):
                bias = router.e_score_correction_bias.numpy() if case.uses_bias else None
                np.testing.assert_allclose(own[i][t], logits_of(router, hidden[i][t]), atol=1e-4)
                ids, weights = case.choose(own[i][t], bias)
                ahead = case.choose(logits_of(router, hidden[i - 1][t]), bias)[0] if i > 0 else [NO_EXPERT] * len(ids)
                scores = own[i][t] if case.scores == "logits" else 1 / (1 + np.exp(-own[i][t]))
                row.append((ids, weights, scores, ahead))
            rows.append(row)
        return tuple(np.array([[layer[f] for layer in row] for row in rows]) for f in range(4))

    def check(self, case, model, trace, prompts, eos=None):
        self.assertEqual(len(trace.request_offsets), len(prompts) + 1)
        for i, prompt in enumerate(prompts):
            tokens = greedy(model, prompt, NEW_TOKENS, eos)[:-1]  # the last one enters no pass
            rows = trace.request(i)
            self.assertEqual(trace.phases[rows].tolist(), [PREFILL] * len(prompt) + [DECODE] * (len(tokens) - len(prompt)))
            ids, weights, scores, ahead = self.expected(case, model, tokens)
            np.testing.assert_array_equal(trace.expert_ids[rows], ids)
            np.testing.assert_allclose(trace.router_scores[rows], scores, atol=1e-4)
            if "gate_scores" in trace.tensors:
                np.testing.assert_allclose(trace.gate_scores[rows], weights, atol=1e-4)
            # Look-ahead is a set: it is compared in the order of ids.
            np.testing.assert_array_equal(np.sort(trace.lookahead_ids[rows], -1), np.sort(ahead, -1))

    def test_families(self):
        uneven = 0  # models of which a request ended while another of its batch went on
        for case in capture_models.CASES:
            with self.subTest(case.name), tempfile.TemporaryDirectory() as folder:
                model = case.build()
                self.check(case, model, record(model, PROMPTS[:1], folder), PROMPTS[:1])
                # A padded batch of 3, of which some end before the others.
                eos = greedy(model, PROMPTS[0], NEW_TOKENS)[len(PROMPTS[0]) + 1]
                model.generation_config.eos_token_id = [eos]
                trace = record(model, PROMPTS, folder, batch=3, domains=["a", "b", "a"])
                self.check(case, model, trace, PROMPTS, eos)
                decoded = [trace.phases[trace.request(i)].tolist().count(DECODE) for i in range(3)]
                self.assertLess(decoded[0], NEW_TOKENS - 1)
                uneven += max(decoded) > decoded[0]
                self.assertEqual(trace.metadata["router_scores"], case.scores)
                self.assertEqual(json.loads(trace.metadata["domains"]), ["a", "b"])
                self.assertEqual(trace.request_domains.tolist(), [0, 1, 0])
        self.assertGreater(uneven, len(capture_models.CASES) // 2)

    def test_by_shape_is_as_by_table(self):
        case = capture_models.CASES[0]
        model = case.build()
        with tempfile.TemporaryDirectory() as folder:
            by_table = record(model, PROMPTS, folder, batch=2)
            with mock.patch.dict(routers.FAMILIES, clear=True):
                by_shape = record(model, PROMPTS, folder, batch=2)
        self.assertEqual(by_table.tensors.keys(), by_shape.tensors.keys())
        for name, array in by_table.tensors.items():
            np.testing.assert_array_equal(array, by_shape.tensors[name])
        self.assertIn("by shape", by_shape.metadata["provenance"])

    def test_a_router_that_only_scores(self):
        """The ids are the best scores; the weights are not known, so they are not in the trace."""
        case, model = capture_models.CASES[0], capture_models.own_code_model()
        with tempfile.TemporaryDirectory() as folder:
            trace = record(model, PROMPTS, folder, batch=3)
        self.assertNotIn("gate_scores", trace.tensors)
        tokens = greedy(model, PROMPTS[2], NEW_TOKENS)[:-1]
        blocks = [layer.mlp for layer in model.model.layers]
        _, hidden = full_pass(model, blocks, lambda: model(input_ids=torch.tensor([tokens]), use_cache=False))
        for i, block in enumerate(blocks):
            ids = [case.choose(logits)[0] for logits in logits_of(block.gate, hidden[i])]
            np.testing.assert_array_equal(trace.expert_ids[trace.request(2)][:, i], ids)

    def test_best_scores_only(self):
        model = capture_models.CASES[0].build()
        with tempfile.TemporaryDirectory() as folder:
            whole, best = record(model, PROMPTS, folder, batch=3), record(model, PROMPTS, folder, batch=3, scores=5)
            none = record(model, PROMPTS, folder, batch=3, scores="none")
        order = np.argsort(-whole.router_scores, axis=-1, kind="stable")[..., :5]
        np.testing.assert_array_equal(best.candidate_ids, order)
        np.testing.assert_array_equal(best.router_scores, np.take_along_axis(whole.router_scores, order, -1))
        self.assertNotIn("router_scores", none.tensors)
        self.assertNotIn("router_scores", none.metadata)
        for scores in (1, 8):
            with self.assertRaisesRegex(CaptureError, "chooses 2 of 8"):
                record(model, PROMPTS, tempfile.gettempdir(), scores=scores)

    def test_prefill_only_half_precision_and_sampling(self):
        model = capture_models.CASES[1].build()
        with tempfile.TemporaryDirectory() as folder:
            exact = record(model, PROMPTS, folder, batch=3, max_new_tokens=0)
            half = record(model, PROMPTS, folder, batch=3, max_new_tokens=0, score_dtype="float16")
            sampled = [record(model, PROMPTS, folder, temperature=5.0, seed=seed).expert_ids for seed in (1, 1, 2)]
        self.assertEqual(exact.request_offsets.tolist(), [0, 5, 14, 17])
        self.assertEqual(set(exact.phases.tolist()), {PREFILL})
        for name in ("gate_scores", "router_scores"):
            self.assertEqual(half.tensors[name].dtype, np.float16)
            np.testing.assert_array_equal(half.tensors[name], exact.tensors[name].astype(np.float16))
        np.testing.assert_array_equal(sampled[0], sampled[1])
        self.assertFalse(np.array_equal(sampled[0], sampled[2]))


class EncoderDecoderTest(unittest.TestCase):
    def test_switch(self):
        """Experts of capacity 5 (tokens of a sequence): the encoder's prompt of 24 overflows them; the decoder does not."""
        model = capture_models.switch_model(capacity=5)
        prompts = [PROMPTS[0], [3 * i + 2 for i in range(24)], PROMPTS[2]]
        with tempfile.TemporaryDirectory() as folder:
            alone, together = record(model, prompts[1:2], folder), record(model, prompts, folder, batch=3)
        self.assertEqual(alone.expert_ids.shape[1:], (4, 1))
        dropped = self.check(model, alone, prompts[1:2]) + self.check(model, together, prompts)
        self.assertGreater(dropped, 0, "the test needs tokens that an expert has no place for")

    def check(self, model, trace, prompts):
        dropped = 0
        for i, prompt in enumerate(prompts):
            decoded = self.greedy(model, prompt)[:-1]
            rows = trace.request(i)
            self.assertEqual(trace.phases[rows].tolist(), [0] * len(prompt) + [DECODE] * len(decoded))
            blocks = [model.get_submodule(f"encoder.block.{b}.layer.1.mlp") for b in (1, 3)]
            blocks += [model.get_submodule(f"decoder.block.{b}.layer.2.mlp") for b in (1, 3)]
            run = lambda: model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([decoded]), output_router_logits=True)  # noqa: B023, E731
            out, hidden = full_pass(model, blocks, run)
            own = [logits[0].numpy() for logits in (*out.encoder_router_logits, *out.decoder_router_logits)]
            ids, weights, scores, ahead = (trace.tensors[n][rows] for n in ("expert_ids", "gate_scores", "router_scores", "lookahead_ids"))
            split = len(prompt)
            for layer, logits in enumerate(own):
                mine, other = (slice(0, split), slice(split, None)) if layer < 2 else (slice(split, None), slice(0, split))
                for array, nothing in ((ids, NO_EXPERT), (weights, 0), (scores, 0), (ahead, NO_EXPERT)):
                    self.assertTrue((array[other, layer] == nothing).all())
                served = np.zeros(4, int)  # tokens by expert
                for t, row in enumerate(logits):
                    probability = capture_reference.softmax(row)
                    expert = int(probability.argmax())
                    served[expert] += 1
                    full = served[expert] > 5
                    dropped += full
                    self.assertEqual(ids[mine][t, layer, 0], NO_EXPERT if full else expert)
                    np.testing.assert_allclose(weights[mine][t, layer, 0], 0 if full else probability[expert], atol=1e-4)
                    np.testing.assert_allclose(scores[mine][t, layer], 0 * row if full else row, atol=1e-4)
                    before = logits_of(blocks[layer].router.classifier, hidden[layer - 1][t]) if layer % 2 else None
                    self.assertEqual(ahead[mine][t, layer, 0], NO_EXPERT if before is None else before.argmax())
        return dropped

    @torch.no_grad()
    def greedy(self, model, prompt):
        tokens = [0]
        for _ in range(NEW_TOKENS):
            out = model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([tokens]), use_cache=False)
            tokens.append(int(out.logits[0, -1].argmax()))
        return tokens


class WriterTest(unittest.TestCase):
    def test_tensors_are_aligned_and_memory_stays_flat(self):
        """Each tensor starts at a multiple of its element's size; 32 MB go through a small buffer."""
        ids = np.broadcast_to(np.arange(4, dtype=np.uint16), (512, 16, 4))
        arrays = {"expert_ids": ids, "router_scores": np.zeros((512, 16, 64), np.float16), "gate_scores": np.zeros((512, 16, 4), np.float32)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "big.safetensors"
            tracemalloc.start()
            with trace_writer.TraceWriter(path, 64, {"model": "é"}) as writer:
                for i in range(25):
                    writer.add_request(trace_writer.Rows(arrays, np.full(512, DECODE, np.uint8)), "odd" if i % 2 else "even")
                writer.finish()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 8e6)
            self.assertGreater(path.stat().st_size, 30e6)
            data = path.read_bytes()
            size = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + size])
            widths = {"U64": 8, "F32": 4, "F16": 2, "U16": 2, "U8": 1}
            for name, tensor in header.items():
                if name != "__metadata__":
                    self.assertEqual((8 + size + tensor["data_offsets"][0]) % widths[tensor["dtype"]], 0, name)
            np.testing.assert_array_equal(Trace(path).expert_ids[512:1024], ids)

    def test_rows_that_break_the_format(self):
        for ids, message in [([3, 3], "experts \\[3, 3\\]"), ([0, 8], "below 8"), ([1, NO_EXPERT], "not distinct numbers")]:
            with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(CaptureError, message):
                with trace_writer.TraceWriter(Path(folder) / "bad", 8, {}) as writer:
                    rows = {"expert_ids": np.array([[[0, 1]], [ids]], np.uint16)}
                    writer.add_request(trace_writer.Rows(rows, np.array([PREFILL, PREFILL], np.uint8)))


class ProgramTest(unittest.TestCase):
    """The command itself, with a model and a tokenizer in a folder."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        words = {word: i for i, word in enumerate(["[pad]", "the", "bank", "river", "money", "[end]"])}
        plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[pad]"))
        plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[pad]").save_pretrained(self.folder / "model")
        self.model = capture_models.CASES[2].build()
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars
            self.model.save_pretrained(self.folder / "model")

    def run_program(self, prompts, *options, out="out.safetensors"):
        command = ["capture_hf.py", "--model", str(self.folder / "model"), "--prompts", "-", "--out", str(self.folder / out)]
        output = io.StringIO()
        with (
            mock.patch.object(sys, "argv", [*command, "--device", "cpu", *options]),
            mock.patch.object(sys, "stdin", io.StringIO(prompts)),
            contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()),
        ):  # fmt: skip
            capture_hf.main()
        return output.getvalue()

    def test_text_lines(self):
        said = self.run_program("the river bank\n\nthe money\n", "--max-new-tokens", "3", "--batch", "2", "--score-dtype", "float32")
        trace = Trace(self.folder / "out.safetensors")
        direct = record(self.model, [[1, 3, 2], [1, 4]], self.folder, batch=2, max_new_tokens=3)
        for name, array in direct.tensors.items():
            np.testing.assert_array_equal(trace.tensors[name], array)
        self.assertIn("9 tokens, 2 requests", said)  # 3 + 2 prompt tokens, 2 decode rows each
        self.assertNotIn("request_domains", trace.tensors)
        self.assertEqual(trace.metadata["model"], "model")

    def test_json_lines(self):
        lines = [{"text": "the river", "kind": "nature"}, {"text": "money", "kind": "trade"}, {"text": "bank", "kind": "nature"}]
        self.run_program("\n".join(map(json.dumps, lines)), "--prompt-field", "text", "--domain-field", "kind", "--name", "a/b")
        trace = Trace(self.folder / "out.safetensors")
        self.assertEqual((json.loads(trace.metadata["domains"]), trace.request_domains.tolist()), (["nature", "trade"], [0, 1, 0]))
        self.assertEqual(trace.metadata["model"], "a/b")

    def test_bad_input_says_where_and_leaves_nothing(self):
        good = '{"prompt": "the", "domain": "x"}\n'
        for prompts, options, message in [
            ("", [], "standard input: no prompts"),
            (good + "the river", [], "standard input:2: not JSON"),
            (good + "[1]", [], "standard input:2: expected a JSON object"),
            (good + '{"promt": "the"}', [], "standard input:2: no text in 'prompt'; the object has: promt"),
            (good + '{"prompt": "the"}', [], "standard input:2: no 'domain', unlike line 1"),
            (good + '{"prompt": "the", "domain": 4}', [], "standard input:2: 'domain' is not a text"),
            ("the\n" + "the " * 200, [], "200 tokens and 0 new ones, but the model has 128 positions"),
            ("the", ["--model", str(self.folder / "none")], "cannot be loaded"),
            ("the", ["--device", "cuda:77"], "--device cuda:77"),
        ]:
            with self.subTest(message), self.assertRaises(CaptureError) as raised:
                self.run_program(prompts, *options)
            self.assertIn(message, str(raised.exception))
            self.assertEqual([p.name for p in self.folder.iterdir()], ["model"])

    def test_a_failure_underway_keeps_the_old_file(self):
        (self.folder / "out.safetensors").write_text("old")
        torch.nn.init.constant_(self.model.model.layers[2].mlp.gate.weight, float("nan"))
        with self.assertRaisesRegex(CaptureError, "not finite"):
            record(self.model, PROMPTS, self.folder, name="out.safetensors")
        self.assertEqual((self.folder / "out.safetensors").read_text(), "old")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["model", "out.safetensors"])

    def test_a_model_without_experts(self):
        config = transformers.LlamaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
        with self.assertRaisesRegex(CaptureError, "'llama' is not in the table"):
            record(transformers.LlamaForCausalLM(config), PROMPTS, self.folder)

    def test_routers_that_are_gone_around(self):
        for layer in self.model.model.layers:
            if hasattr(layer.mlp, "gate"):
                gate = layer.mlp.gate
                layer.mlp.gate.forward = gate.forward
                layer.mlp.forward = lambda hidden, block=layer.mlp: block.shared_expert(hidden)
        with self.assertRaisesRegex(CaptureError, "goes around its router modules"):
            record(self.model, PROMPTS, self.folder)


if __name__ == "__main__":
    unittest.main()
