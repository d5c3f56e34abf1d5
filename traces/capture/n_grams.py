"""Unigram and bigram models of token sequences: what a language model must beat to have learnt anything."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NGrams:
    unigram: np.ndarray  # probability [vocabulary], add-one smoothed
    pairs: np.ndarray  # counts [vocabulary, vocabulary]: previous token, token

    def unigram_bits(self, windows: np.ndarray) -> float:
        """Bits of all tokens but the first of each row."""
        return float(-np.log2(self.unigram[windows[:, 1:]]).sum())

    def bigram_bits(self, windows: np.ndarray) -> float:
        """The same given the token before, interpolated with the unigram model (Witten-Bell):
        p(b | a) = (count(a, b) + kinds(a) p(b)) / (count(a) + kinds(a)), kinds(a) distinct tokens seen after a."""
        before, token = windows[:, :-1], windows[:, 1:]
        count = self.pairs.sum(1)
        kinds = np.maximum((self.pairs > 0).sum(1), 1)
        share = self.pairs[before, token] + kinds[before] * self.unigram[token]
        return float(-np.log2(share / (count[before] + kinds[before])).sum())


def count(batches: Iterable[np.ndarray], vocabulary: int) -> NGrams:
    """From batches [sequences, tokens]."""
    pairs = np.zeros(vocabulary * vocabulary, np.int64)
    for batch in batches:
        values, counts = np.unique(batch[:, :-1] * vocabulary + batch[:, 1:], return_counts=True)
        pairs[values] += counts
    pairs = pairs.reshape(vocabulary, vocabulary)
    tokens = pairs.sum(0) + 1
    return NGrams(tokens / tokens.sum(), pairs)
