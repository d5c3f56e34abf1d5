"""Tiny random models of every family: the trace says what the models choose.

What is expected comes from another way through the model than the recorder's: each prompt alone, without padding, key
and value caches or generate(), one full pass over prompt and greedy tokens; there the model's own output_router_logits,
and the choice by capture_reference.py. Look-ahead is recomputed from what enters the MoE blocks.
"""

import dataclasses
import json
import tempfile
import unittest
from unittest import mock

import capture_hf
import capture_models
import capture_reference
import numpy as np
import torch
from capture import routers
from capture.errors import CaptureError
from capture_checks import DECODE, NEW_TOKENS, NO_EXPERT, PREFILL, PROMPTS, full_pass, greedy, logits_of, record


class DecoderTest(unittest.TestCase):
    maxDiff = None

    def expected(self, case, model, tokens):
        """ids, weights, scores, lookahead of one sequence, [tokens, layers, ...]."""
        layers = [model.model.layers[i] for i in case.layers]
        routers_ = [layer.get_submodule(case.router) for layer in layers]
        blocks = [layer.get_submodule(case.router.rpartition(".")[0]) for layer in layers]
        out, hidden = full_pass(model, blocks, input_ids=torch.tensor([tokens]), output_router_logits=True)
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
            self.assertEqual(
                trace.phases[rows].tolist(), [PREFILL] * len(prompt) + [DECODE] * (len(tokens) - len(prompt))
            )
            ids, weights, scores, ahead = self.expected(case, model, tokens)
            np.testing.assert_array_equal(trace.expert_ids[rows], ids)
            np.testing.assert_allclose(trace.router_scores[rows], scores, atol=1e-4)
            if "gate_scores" in trace.tensors:
                np.testing.assert_allclose(trace.gate_scores[rows], weights, atol=1e-4)
            np.testing.assert_array_equal(trace.lookahead_ids[rows], ahead)

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
        _, hidden = full_pass(model, blocks, input_ids=torch.tensor([tokens]))
        for i, block in enumerate(blocks):
            ids = [case.choose(logits)[0] for logits in logits_of(block.gate, hidden[i])]
            np.testing.assert_array_equal(trace.expert_ids[trace.request(2)][:, i], ids)

    def test_routers_must_run_in_their_order(self):
        """Or look-ahead would look from the wrong layer."""
        model = capture_models.CASES[0].build()
        found = routers.find_routers(model)
        swapped = dataclasses.replace(found, all=[found.all[i] for i in (0, 2, 1)])
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(capture_hf, "find_routers", return_value=swapped),
            self.assertRaisesRegex(CaptureError, "layers.1.mlp.gate did not run after model.layers.2.mlp.gate"),
        ):
            record(model, PROMPTS, folder)

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
        """Experts of capacity 5 (tokens of a sequence): the encoder's prompt of 24 overflows them, the decoder not."""
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
            inputs = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([decoded])}
            out, hidden = full_pass(model, blocks, **inputs, output_router_logits=True)
            own = [logits[0].numpy() for logits in (*out.encoder_router_logits, *out.decoder_router_logits)]
            ids, weights, scores, ahead = (
                trace.tensors[n][rows] for n in ("expert_ids", "gate_scores", "router_scores", "lookahead_ids")
            )
            split = len(prompt)
            for layer, logits in enumerate(own):
                mine, other = (
                    (slice(0, split), slice(split, None)) if layer < 2 else (slice(split, None), slice(0, split))
                )
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
                    np.testing.assert_allclose(
                        weights[mine][t, layer, 0], 0 if full else probability[expert], atol=1e-4
                    )
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
