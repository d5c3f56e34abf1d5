"""LRU by priorities: an expert's is the higher the later it was used, within a step the higher its number."""

import moelab
import numpy as np
from moelab import Feature


class ByRecency(moelab.PriorityCachePolicy):
    """the expert used least recently leaves first, by its priority"""

    name = "my-recency"

    def __init__(self, shape):
        self.within_step = np.arange(shape.objects) / shape.objects

    def priorities(self, features):
        return self.within_step - features[:, Feature.RECENCY]
