"""traces/train_default.py on random tokens: no text of Debian's is needed."""

import argparse
import contextlib
import io
import math
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import train_default
from capture import n_grams


class TrainingTest(unittest.TestCase):
    size = train_default.Size(2, 32, 2, 16, 16, 64, 8, 2, 4, 0)

    def train(self, folder, batches):
        torch.manual_seed(1)
        model = train_default.make_model(self.size)
        args = argparse.Namespace(size="small", seed=1)
        with mock.patch.object(train_default, "CHECKPOINT_STEPS", 2), contextlib.redirect_stdout(io.StringIO()):
            train_default.fit(model, batches, 5, Path(folder) / "checkpoint.pt", args)
        return model

    def test_a_killed_run_goes_on_to_the_same_weights(self):
        text = {"a": np.arange(200, dtype=np.uint16) % 64, "b": np.arange(90, dtype=np.uint16) * 7 % 64}
        batches = train_default.Batches(text, self.size, seed=3)

        def killed(step):
            if step == 3:  # after the checkpoint of step 2
                raise KeyboardInterrupt
            return batches(step)

        with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as parts:
            expected = self.train(whole, batches)
            with self.assertRaises(KeyboardInterrupt):
                self.train(parts, killed)
            first = torch.load(Path(parts) / "checkpoint.pt")
            self.assertEqual(first["step"], 2)
            resumed = self.train(parts, batches)
        for (name, weight), (_, again) in zip(expected.named_parameters(), resumed.named_parameters(), strict=True):
            torch.testing.assert_close(again, weight, rtol=0, atol=0, msg=name)

    def test_balance_loss(self):
        """Even routing costs 1; all tokens on the same 4 of 32 experts, surely, cost 32 * 4 * (1/4 * 1/4) = 8. A layer
        that collapses is not excused by another that uses the other experts."""
        even = torch.eye(32).repeat(1, 1) * 50  # token t prefers expert t; the rest of its choice is a tie
        rolled = sum(even.roll(shift, 1) for shift in range(4))
        self.assertAlmostEqual(train_default.balance_loss((rolled,)).item(), 1.0, places=4)
        first, last = torch.zeros(10, 32), torch.zeros(10, 32)
        first[:, :4], last[:, -4:] = 50, 50
        self.assertAlmostEqual(train_default.balance_loss((first,)).item(), 8.0, places=4)
        self.assertAlmostEqual(train_default.balance_loss((first, last)).item(), 8.0, places=4)

    def test_n_grams(self):
        """Bits of a short text, by hand: counts of "0 1 0 1 0 2" with three words; add one to unigrams."""
        model = n_grams.count([np.array([[0, 1, 0, 1, 0, 2]])], 3)
        unigram = [3 / 8, 3 / 8, 2 / 8]  # of the five tokens behind the first: 1 0 1 0 2
        np.testing.assert_allclose(model.unigram, unigram)
        window = np.array([[1, 0, 2, 1]])
        self.assertAlmostEqual(model.unigram_bits(window), -math.log2(unigram[0] * unigram[2] * unigram[1]))
        # After 1: two times 0, one kind. After 0: 1 1 2, two kinds. After 2: nothing: the unigram.
        expected = [(2 + 1 * unigram[0]) / (2 + 1), (1 + 2 * unigram[2]) / (3 + 2), unigram[1]]
        self.assertAlmostEqual(model.bigram_bits(window), -math.log2(math.prod(expected)))
        every = sum(2 ** -model.bigram_bits(np.array([[0, token]])) for token in range(3))
        self.assertAlmostEqual(every, 1.0)  # a distribution
