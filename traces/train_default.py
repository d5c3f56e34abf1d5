#!/usr/bin/env python3
"""Trains the small Mixture-of-Experts language model whose routing is moelab's default trace.

A Qwen2-MoE decoder (every layer has 32 experts, top-4, and a shared expert) learns text that ships with Debian, in
nine domains. A killed run goes on from its last checkpoint when the same command is given again. The folder that
comes out holds the model and tokeniser as transformers reads them, training.json with the losses, and
prompts.jsonl: held-out texts of every domain, for capture_hf.py.

Example (as root, or after apt-get update by root; an hour on two cores):
  pip install -r traces/capture/requirements.txt
  python traces/train_default.py --out build/default_model
  python traces/capture_hf.py --model build/default_model --prompts build/default_model/prompts.jsonl \\
      --max-new-tokens 50 --temperature 0.8 --seed 1 --out build/default.safetensors
"""

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2MoeConfig, Qwen2MoeForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parent))
from capture import debian_text, n_grams

END, PAD = "<|end|>", "<|pad|>"  # token ids 0 and 1; END stands after every document


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    heads: int
    expert: int  # inner size of a routed expert
    shared: int  # inner size of the shared expert
    vocabulary: int
    window: int  # tokens a training sequence
    batch: int  # sequences a step
    steps: int
    domain_bytes: int  # training text of a domain, at most about this


SIZES = {
    "small": Size(8, 128, 4, 64, 128, 2048, 256, 16, 2000, 4_000_000),
    "medium": Size(12, 256, 8, 128, 256, 4096, 512, 32, 6000, 16_000_000),
}
EXPERTS, TOP_K = 32, 4
LEARNING_RATE, WARM_UP, COOL_DOWN = 2e-3, 100, 0.25  # steps of linear rise; share of the steps with linear fall
BALANCE = 0.01  # weight of the auxiliary balance loss
CHECKPOINT_STEPS = 50
HELD_OUT_WINDOWS = 12  # a domain


def main() -> int:
    args = arguments()
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if args.threads:
        torch.set_num_threads(args.threads)
    size = SIZES[args.size]
    steps = args.steps or size.steps
    args.out.mkdir(parents=True, exist_ok=True)
    packages = debian_text.unpack_packages(args.text)
    domains = debian_text.read_domains(args.text, size.domain_bytes)
    tokenizer = make_tokenizer(domains, size.vocabulary, args.out / "tokenizer.json")
    train = {d.name: encode(tokenizer, d.train) for d in domains}
    held_out = {d.name: windows(encode(tokenizer, d.held_out), size.window) for d in domains}
    device = torch.device(args.device if args.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu")
    model = make_model(size).to(device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters on {device};", end=" ")
    print("training tokens:", ", ".join(f"{name} {len(tokens)}" for name, tokens in train.items()), flush=True)

    batches = Batches(train, size, args.seed)
    seconds = fit(model, batches, steps, args.out / "checkpoint.pt", args)
    report = {
        "size": args.size, "seed": args.seed, "steps": steps, "training_tokens": steps * size.batch * size.window,
        "training_seconds": round(seconds), "device": str(device), "torch": torch.__version__, "packages": packages,
        "model": asdict(size) | {"experts": EXPERTS, "top_k": TOP_K},
        "held_out": compare(model, batches, steps, held_out, token_bytes(tokenizer)),
    }  # fmt: skip
    save(args.out, model, tokenizer, report, prompts(tokenizer, domains, args.prompts, args.prompt_tokens))
    print(json.dumps(report["held_out"]["all"], indent=1))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of the model; a checkpoint in it is gone on from"
    )
    parser.add_argument(
        "--text", type=Path, default=Path("build/debian_text"), help="folder of the unpacked text (%(default)s)"
    )
    parser.add_argument("--size", choices=SIZES, default="small", help="small: an hour on two cores; medium: for a GPU")
    parser.add_argument("--steps", type=int, help="optimiser steps (small: 2000, medium: 6000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, ...")
    parser.add_argument("--threads", type=int, help="CPU threads (all cores)")
    parser.add_argument("--prompts", type=int, default=3, help="prompts a domain in prompts.jsonl (%(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=96, help="tokens a prompt, about (%(default)s)")
    return parser.parse_args()


def make_tokenizer(domains: list[debian_text.Domain], vocabulary: int, path: Path) -> PreTrainedTokenizerFast:
    """Byte-level BPE learnt from an equal share of every domain."""
    if not path.exists():
        bpe = Tokenizer(models.BPE())
        bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=[END, PAD], show_progress=False,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        )  # fmt: skip
        bpe.train_from_iterator(("".join(d.text for d in domain.train)[:800_000] for domain in domains), trainer)
        bpe.save(str(path))
    return PreTrainedTokenizerFast(tokenizer_file=str(path), eos_token=END, pad_token=PAD, padding_side="left")


def encode(tokenizer: PreTrainedTokenizerFast, documents: list[debian_text.Document]) -> np.ndarray:
    """All documents' tokens, END after each."""
    ids: list[int] = []
    for encoding in tokenizer.backend_tokenizer.encode_batch([d.text for d in documents]):
        ids.extend(encoding.ids)
        ids.append(tokenizer.eos_token_id)
    return np.array(ids, np.uint16)


def token_bytes(tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """Bytes of text that each token stands for: a byte-level token has one character a byte; END and PAD have none."""
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return np.array([0 if name in (END, PAD) else len(name) for name in names])


def windows(tokens: np.ndarray, window: int) -> np.ndarray:
    """Windows of window + 1 tokens, spread evenly over the text."""
    if len(tokens) <= window:
        raise debian_text.TextError(f"a domain's held-out text has {len(tokens)} tokens; a window needs {window + 1}")
    starts = np.linspace(0, len(tokens) - window - 1, HELD_OUT_WINDOWS).astype(np.int64)
    return np.stack([tokens[s : s + window + 1] for s in starts]).astype(np.int64)


class Batches:
    """Training sequences of step n, from the seed and n alone: a resumed run sees what the killed one would have."""

    def __init__(self, train: dict[str, np.ndarray], size: Size, seed: int):
        self.texts, self.size, self.seed = list(train.values()), size, seed
        weights = np.sqrt([len(text) for text in self.texts])  # small domains more often than their size asks
        self.shares = weights / weights.sum()

    def __call__(self, step: int) -> np.ndarray:
        random = np.random.default_rng([self.seed, step])
        rows = []
        for domain in random.choice(len(self.texts), self.size.batch, p=self.shares):
            start = random.integers(len(self.texts[domain]) - self.size.window)
            rows.append(self.texts[domain][start : start + self.size.window + 1])
        return np.stack(rows).astype(np.int64)


def make_model(size: Size) -> Qwen2MoeForCausalLM:
    config = Qwen2MoeConfig(
        vocab_size=size.vocabulary, hidden_size=size.hidden, num_hidden_layers=size.layers,
        num_attention_heads=size.heads, num_key_value_heads=size.heads, intermediate_size=4 * size.hidden,
        num_experts=EXPERTS, num_experts_per_tok=TOP_K, norm_topk_prob=True, moe_intermediate_size=size.expert,
        shared_expert_intermediate_size=size.shared, max_position_embeddings=4 * size.window,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=0, pad_token_id=1,
    )  # fmt: skip
    model = Qwen2MoeForCausalLM(config)
    model.set_experts_implementation("grouped_mm")  # on a CPU, 1.3 times the speed of the loop over experts
    return model


def balance_loss(router_logits: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Mean over layers of E * sum_e (share of choices that went to e) * (mean probability of e); 1 when balanced.

    As in Switch Transformers (arXiv 2101.03961, eq. 4). transformers' own loss pools all layers before it takes the
    shares, so that a layer may collapse onto experts that another layer leaves alone; hence this one.
    """
    losses = []
    for logits in router_logits:
        probability = logits.float().softmax(-1)
        chosen = torch.zeros_like(probability).scatter_(-1, probability.topk(TOP_K).indices, 1.0 / TOP_K)
        losses.append(EXPERTS * (chosen.mean(0) * probability.mean(0)).sum())
    return torch.stack(losses).mean()


def learning_rate(step: int, steps: int) -> float:
    return LEARNING_RATE * min(1.0, (step + 1) / WARM_UP, (steps - step) / (COOL_DOWN * steps))


def fit(model: Qwen2MoeForCausalLM, batches: Batches, steps: int, checkpoint: Path, args: argparse.Namespace) -> float:
    """Trains up to `steps`, from the checkpoint if there is one; returns the seconds spent, earlier runs' included."""
    settings = {"size": args.size, "seed": args.seed}
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    first, before = 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=model.device)
        if state["settings"] != settings:
            raise SystemExit(f"{checkpoint} is of {state['settings']}, this run of {settings}: choose another --out")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, before = state["step"], state["seconds"]
    begin = time.monotonic()
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        tokens = torch.from_numpy(batches(step)).to(model.device)
        out = model(input_ids=tokens[:, :-1], output_router_logits=True, use_cache=False)
        loss = cross_entropy(out.logits, tokens[:, 1:]).mean()
        balance = balance_loss(out.router_logits)
        (loss + BALANCE * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % CHECKPOINT_STEPS == 0 or step + 1 == steps:
            seconds = before + time.monotonic() - begin
            bits = loss.item() / math.log(2)
            print(
                f"step {step + 1}/{steps}  {bits:.3f} bits a token  balance {balance.item():.3f}  {seconds:.0f} s",
                flush=True,
            )
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(
                state | {"settings": settings, "step": step + 1, "seconds": seconds}, checkpoint.with_suffix(".new")
            )
            checkpoint.with_suffix(".new").replace(checkpoint)
    return before + time.monotonic() - begin


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Nats a token, shape of targets."""
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2).float(), targets, reduction="none")


@torch.no_grad()
def compare(model, batches: Batches, steps: int, held_out: dict[str, np.ndarray], bytes_of: np.ndarray) -> dict:
    """Held-out losses by domain and of all, of the model and of n-gram models of what it was trained on."""
    model.eval()
    baseline = n_grams.count(map(batches, range(steps)), len(bytes_of))
    totals: dict[str, dict[str, float]] = {}
    for name, tokens in held_out.items():
        rows = torch.from_numpy(tokens).to(model.device)
        nats = cross_entropy(model(input_ids=rows[:, :-1], use_cache=False).logits, rows[:, 1:])
        totals[name] = {
            "tokens": tokens[:, 1:].size, "bytes": int(bytes_of[tokens[:, 1:]].sum()),
            "model": nats.double().sum().item() / math.log(2),
            "unigram": baseline.unigram_bits(tokens), "bigram": baseline.bigram_bits(tokens),
        }  # fmt: skip
    totals["all"] = {key: sum(t[key] for t in totals.values()) for key in next(iter(totals.values()))}
    return {name: per_unit(total) for name, total in totals.items()}


def per_unit(total: dict[str, float]) -> dict[str, float]:
    out = {"tokens": total["tokens"], "bytes": total["bytes"]}
    for kind in ("model", "bigram", "unigram"):
        out[f"{kind}_bits_per_token"] = round(total[kind] / total["tokens"], 4)
        out[f"{kind}_bits_per_byte"] = round(total[kind] / total["bytes"], 4)
    return out


def prompts(tokenizer, domains: list[debian_text.Domain], count: int, tokens: int) -> list[dict[str, str]]:
    """`count` pieces of held-out text a domain, from documents spread over it and from different places in them."""
    out = []
    for domain in domains:
        for i in range(count):
            document = domain.held_out[i * len(domain.held_out) // count]
            ids = tokenizer(document.text).input_ids
            start = (i + 1) * max(0, len(ids) - tokens) // (count + 1)
            out.append({"prompt": tokenizer.decode(ids[start : start + tokens]), "domain": domain.name})
    return out


def save(folder: Path, model, tokenizer, report: dict, lines: list[dict[str, str]]) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "training.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / "prompts.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except debian_text.TextError as error:
        sys.exit(f"error: {error}")
