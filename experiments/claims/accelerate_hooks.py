"""What Accelerate's hooks take of a processor for one expert that lies on disk: configs/runtimes/transformers-orin.yaml.

usage: pip install torch accelerate && python experiments/claims/accelerate_hooks.py
"""

import tempfile
import time

import accelerate
import torch

SIZE = 8  # so small that neither arithmetic nor reading counts


class Expert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (torch.nn.Linear(SIZE, SIZE, bias=False) for _ in range(3))

    def forward(self, x):
        return self.down_proj(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def microseconds(module, rounds=7, calls=200):
    """Of the processor, a call: the least of some rounds, of which the first warms up."""
    x = torch.zeros(1, SIZE)
    least = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(calls):
            module(x)
        least = min(least, (time.process_time() - begin) / calls)
    return 1e6 * least


def main():
    torch.set_num_threads(1)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        plain = microseconds(Expert())
        hooked = microseconds(accelerate.disk_offload(Expert(), folder, execution_device=torch.device("cpu")))
    print(f"torch {torch.__version__}, accelerate {accelerate.__version__}: {hooked:.0f} us an expert, {plain:.0f} without hooks")


if __name__ == "__main__":
    main()
