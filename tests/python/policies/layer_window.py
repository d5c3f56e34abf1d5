"""Whole layers through a sliding window: see policies/prefetch/layer_window.cpp."""

import moelab
from moelab import Parameter


class LayerWindow(moelab.PrefetchPolicy):
    """all experts of the next `depth` MoE layers"""

    name = "my-window"
    source = "DeepSpeed ZeRO-3 / ZeRO-Infinity (arXiv 2104.07857)"
    parameters = {
        "depth": Parameter(1, "how many layers ahead of the running one the window reaches", 0, 1e6, "layers"),
        "wrap": Parameter(0, "1: the window runs on into the next step's first layers", 0, 1),
    }

    def __init__(self, shape, depth, wrap):
        self.layers, self.experts = shape.layers, shape.experts
        self.depth, self.wrap = min(depth, shape.layers - 1), wrap
        self.wished = 0  # layers below this one are wished; from self.layers on, of the next step

    def begin_step(self):
        self.wished = max(self.wished - self.layers, 0)

    def after_gate(self, layer, uses):
        end = layer + self.depth + 1
        if not self.wrap:
            end = min(end, self.layers)
        ahead = range(max(layer + 1, self.wished), end)
        self.wished = max(self.wished, end)
        return [(m % self.layers, expert) for m in ahead for expert in range(self.experts)]
