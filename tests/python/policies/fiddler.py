"""Each missing expert where it takes less time: see policies/execution/fiddler_execution.cpp."""

import moelab
import numpy as np


class Fiddler(moelab.ExecutionPolicy):
    """each missing expert where it takes less time by itself, CPU or load"""

    name = "my-fiddler"
    source = "Fiddler (Kamahori et al., ICLR 2025, arXiv 2402.07033), Algorithm 1"
    needs_cpu = True

    def plan(self, missing, costs):
        loaded = costs.cpu_s[missing["tokens"]] > costs.gpu_s + costs.load_s
        return np.flatnonzero(loaded), np.flatnonzero(~loaded)
