#!/usr/bin/env python3
"""Records a routing trace from a Hugging Face Mixture-of-Experts model.

The model prefills and decodes the prompts; the trace says which experts every token went to in every MoE layer, with
what weight, what the routers gave every expert, and what each layer's router would have said one layer earlier.

Example:
  python traces/capture_hf.py --model allenai/OLMoE-1B-7B-0924 --prompts prompts.jsonl --max-new-tokens 128 \\
      --batch 4 --out olmoe.safetensors
with a line of prompts.jsonl such as {"prompt": "def quicksort(", "domain": "code"}.
Then: moelab run SCENARIO with the trace as its workload (traces/CAPTURE.md).
"""

import argparse
import datetime
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from capture.errors import CaptureError
from capture.prompts import Prompt, read_prompts

try:
    import torch
    import transformers
    from capture.recorder import Options, Recorder, run_batch
    from capture.routers import find_routers
    from capture.trace_writer import TraceWriter
except ImportError as missing:
    sys.exit(f"error: {missing}; install what capture needs: pip install -r traces/capture/requirements.txt")

MODEL_DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Request:
    tokens: list[int]  # of the prompt
    domain: str | None = None


def capture(
    model: "transformers.PreTrainedModel",
    requests: Sequence[Request],
    out: Path,
    options: Options,
    *,
    model_name: str,
    provenance: str,
    progress: bool = False,
) -> int:
    """Runs the requests through the model and writes the trace of its routing to `out`, whole or not at all; returns
    the trace's tokens. Needs no tokenizer. CaptureError, with nothing written, if anything is not as it should be."""
    routers = find_routers(model)
    metadata = {
        "format": "moelab-routing", "format_version": "2", "model": model_name, "kind": "recorded",
        "provenance": "; ".join(filter(None, [provenance, routers.note])),
    }  # fmt: skip
    if options.scores != "none":
        metadata["router_scores"] = routers.scores
    model.eval()
    begin = time.monotonic()
    with Recorder(routers, options) as recorder, TraceWriter(out, routers.experts, metadata) as writer:
        for batch, start in enumerate(range(0, len(requests), options.batch)):
            group = requests[start : start + options.batch]
            rows = run_batch(model, recorder, [request.tokens for request in group], options.seed + batch)
            for request, its_rows in zip(group, rows, strict=True):
                writer.add_request(its_rows, request.domain)
            if progress:
                done, seconds = start + len(group), time.monotonic() - begin
                print(
                    f"{done}/{len(requests)} prompts, {writer.tokens} tokens, {seconds:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
        writer.finish()
        return writer.tokens


def check_out(out: Path, prompts: str) -> None:
    """Before hours of capture, not after."""
    if not out.parent.is_dir():
        raise CaptureError(f"{out}: there is no folder {out.parent}")
    if out.exists() and not out.is_file():
        raise CaptureError(f"{out}: is not a regular file; a trace is written to a file only")
    if out.exists() and os.path.exists(prompts) and out.samefile(prompts):
        raise CaptureError(f"{out}: holds the prompts; they would be lost under the trace")


def main() -> int:
    args = arguments()
    check_out(args.out, args.prompts)
    prompts = read_prompts(args.prompts, args.prompt_field, args.domain_field)
    transformers.utils.logging.set_verbosity_error()
    model = load_model(args)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model, trust_remote_code=args.trust_remote_code)
    requests = list(tokenize(prompts, tokenizer, model, args))
    options = Options(args.max_new_tokens, args.batch, args.scores, args.score_dtype, args.temperature, args.seed)
    name = args.name or (Path(args.model).resolve().name if Path(args.model).exists() else args.model)
    tokens = capture(
        model, requests, args.out, options, model_name=name, provenance=provenance(model, args), progress=True
    )
    print(f"{args.out}: {tokens} tokens, {len(requests)} requests, {args.out.stat().st_size / 1e6:.2f} MB")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="name on the Hugging Face hub, or a folder")
    parser.add_argument("--prompts", required=True, help="file, or - for standard input: a prompt a line, or JSONL")
    parser.add_argument("--out", type=Path, required=True, help="the trace, a .safetensors file")
    parser.add_argument(
        "--max-new-tokens",
        type=at_least(0),
        default=0,
        metavar="N",
        help="tokens to generate a prompt; 0, the default: prefill only",
    )
    parser.add_argument(
        "--batch", type=at_least(1), default=1, metavar="B", help="prompts that run together (default 1)"
    )
    parser.add_argument(
        "--device",
        default="auto",
        help="cpu, cuda, cuda:1, ...; auto, the default: GPUs (with accelerate, host memory too), else the CPU",
    )
    parser.add_argument("--dtype", choices=MODEL_DTYPES, default="auto", help="of the weights; auto: as stored")
    parser.add_argument(
        "--scores",
        type=scores,
        default="all",
        metavar="all|topM|none",
        help="what to record of the routers' scores: all experts' (default), the M best (top16), none",
    )
    parser.add_argument(
        "--score-dtype",
        choices=("float16", "float32"),
        default="float16",
        help="of the recorded scores (default float16)",
    )
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0, the default: greedy; above: sampled"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sampling")
    parser.add_argument("--max-prompt-tokens", type=at_least(1), metavar="N", help="cut longer prompts")
    parser.add_argument("--chat", action="store_true", help="put each prompt into the tokenizer's chat template")
    parser.add_argument("--prompt-field", default="prompt", metavar="NAME", help="JSONL: where the prompt is (prompt)")
    parser.add_argument(
        "--domain-field", default="domain", metavar="NAME", help="JSONL: where the kind of prompt is (domain)"
    )
    parser.add_argument("--name", help="the model's identity in the trace; by default what --model says")
    parser.add_argument("--trust-remote-code", action="store_true", help="run the model's own Python code")
    return parser.parse_args()


def at_least(least: int):
    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value}: at least {least}")
        return value

    return integer


def scores(text: str) -> str | int:
    if text in ("all", "none"):
        return text
    if text.startswith("top") and text[3:].isdigit() and int(text[3:]) > 0:
        return int(text[3:])
    raise argparse.ArgumentTypeError(f"{text!r}: all, none, or top and a number, such as top16")


def load_model(args: argparse.Namespace) -> "transformers.PreTrainedModel":
    try:
        config = transformers.AutoConfig.from_pretrained(args.model, trust_remote_code=args.trust_remote_code)
        options = {"config": config, "dtype": args.dtype, "trust_remote_code": args.trust_remote_code}
        quantization = getattr(config, "quantization_config", None) or {}
        if quantization.get("quant_method") == "mxfp4":
            # The fused MXFP4 layers of gpt-oss compute the routing themselves and never call the router modules.
            options["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
        automatic = args.device == "auto"
        if automatic and torch.cuda.is_available() and transformers.utils.is_accelerate_available():
            options["device_map"] = "auto"
        loader = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
        model = loader.from_pretrained(args.model, **options)
    except (OSError, ValueError) as error:
        raise CaptureError(f"the model {args.model} cannot be loaded: {error}") from error
    if "device_map" in options:
        return model
    device = args.device if not automatic else "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise CaptureError(f"--device {device}: {str(error).splitlines()[0]}") from error


def tokenize(prompts: list[Prompt], tokenizer, model, args: argparse.Namespace) -> Iterator[Request]:
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    for prompt in prompts:
        place = f"{args.prompts}:{prompt.line}"
        if args.chat:
            messages = [{"role": "user", "content": prompt.text}]
            tokens = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
        else:
            tokens = tokenizer(prompt.text)["input_ids"]
        tokens = tokens[: args.max_prompt_tokens]
        if not tokens:
            raise CaptureError(f"{place}: the tokenizer makes no tokens of this prompt")
        if longest and len(tokens) + args.max_new_tokens > longest:
            raise CaptureError(
                f"{place}: {len(tokens)} tokens and {args.max_new_tokens} new ones, but the model has {longest} "
                "positions; --max-prompt-tokens cuts prompts"
            )
        yield Request(tokens, prompt.domain)


def provenance(model, args: argparse.Namespace) -> str:
    choice = f"sampled at temperature {args.temperature} with seed {args.seed}" if args.temperature > 0 else "greedy"
    return (
        f"moelab capture_hf.py, transformers {transformers.__version__}, torch {torch.__version__}, "
        f"{model.device.type}, {str(model.dtype).removeprefix('torch.')}, prompts {Path(args.prompts).name}, "
        f"{args.max_new_tokens} new tokens at most, {choice}, batch {args.batch}, "
        f"{datetime.datetime.now(datetime.UTC).date()}"
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary files are removed
    try:
        sys.exit(main())
    except CaptureError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing was written")
