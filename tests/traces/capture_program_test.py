"""The writer by itself, and the command with a model and a tokenizer in a folder."""

import contextlib
import io
import json
import sys
import tempfile
import tracemalloc
import unittest
from pathlib import Path
from unittest import mock

import capture_hf
import capture_models
import numpy as np
import tokenizers
import torch
import transformers
from capture import trace_writer
from capture.errors import CaptureError
from capture_checks import DECODE, NO_EXPERT, PREFILL, PROMPTS, Trace, record


class WriterTest(unittest.TestCase):
    def test_tensors_are_aligned_and_memory_stays_flat(self):
        """Each tensor starts at a multiple of its element's size; 32 MB go through a small buffer."""
        ids = np.broadcast_to(np.arange(4, dtype=np.uint16), (512, 16, 4))
        arrays = {
            "expert_ids": ids,
            "router_scores": np.zeros((512, 16, 64), np.float16),
            "gate_scores": np.zeros((512, 16, 4), np.float32),
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "big.safetensors"
            tracemalloc.start()
            with trace_writer.TraceWriter(path, 64, {"model": "é"}) as writer:
                for i in range(25):
                    writer.add_request(
                        trace_writer.Rows(arrays, np.full(512, DECODE, np.uint8)), "odd" if i % 2 else "even"
                    )
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
        for ids, message in [
            ([3, 3], "experts \\[3, 3\\]"),
            ([0, 8], "below 8"),
            ([1, NO_EXPERT], "not distinct numbers"),
        ]:
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
        transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[pad]").save_pretrained(
            self.folder / "model"
        )
        self.model = capture_models.CASES[2].build()
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars
            self.model.save_pretrained(self.folder / "model")

    def run_program(self, prompts, *options, out="out.safetensors"):
        command = [
            "capture_hf.py",
            "--model",
            str(self.folder / "model"),
            "--prompts",
            "-",
            "--out",
            str(self.folder / out),
        ]
        output = io.StringIO()
        with (
            mock.patch.object(sys, "argv", [*command, "--device", "cpu", *options]),
            mock.patch.object(sys, "stdin", io.StringIO(prompts)),
            contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()),
        ):  # fmt: skip
            capture_hf.main()
        return output.getvalue()

    def test_text_lines(self):
        said = self.run_program(
            "the river bank\n\nthe money\n", "--max-new-tokens", "3", "--batch", "2", "--score-dtype", "float32"
        )
        trace = Trace(self.folder / "out.safetensors")
        direct = record(self.model, [[1, 3, 2], [1, 4]], self.folder, batch=2, max_new_tokens=3)
        for name, array in direct.tensors.items():
            np.testing.assert_array_equal(trace.tensors[name], array)
        self.assertIn("9 tokens, 2 requests", said)  # 3 + 2 prompt tokens, 2 decode rows each
        self.assertNotIn("request_domains", trace.tensors)
        self.assertEqual(trace.metadata["model"], "model")

    def test_json_lines(self):
        lines = [
            {"text": "the river", "kind": "nature"},
            {"text": "money", "kind": "trade"},
            {"text": "bank", "kind": "nature"},
        ]
        self.run_program(
            "\n".join(map(json.dumps, lines)), "--prompt-field", "text", "--domain-field", "kind", "--name", "a/b"
        )
        trace = Trace(self.folder / "out.safetensors")
        self.assertEqual(
            (json.loads(trace.metadata["domains"]), trace.request_domains.tolist()), (["nature", "trade"], [0, 1, 0])
        )
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

    def test_outputs_that_cannot_be(self):
        prompts = self.folder / "prompts.txt"
        prompts.write_text("the river\n")
        for out, message in [
            ("prompts.txt", "holds the prompts"),
            ("model", "is not a regular file"),
            ("none/out.safetensors", "there is no folder"),
        ]:
            with self.subTest(out), self.assertRaisesRegex(CaptureError, message):
                self.run_program("", "--prompts", str(prompts), out=out)
        self.assertEqual(prompts.read_text(), "the river\n")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["model", "prompts.txt"])

    def test_a_failure_underway_keeps_the_old_file(self):
        (self.folder / "out.safetensors").write_text("old")
        torch.nn.init.constant_(self.model.model.layers[2].mlp.gate.weight, float("nan"))
        with self.assertRaisesRegex(CaptureError, "not finite"):
            record(self.model, PROMPTS, self.folder, name="out.safetensors")
        self.assertEqual((self.folder / "out.safetensors").read_text(), "old")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["model", "out.safetensors"])

    def test_a_model_without_experts(self):
        config = transformers.LlamaConfig(
            vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
        )
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
