"""Reads prompts: lines of text, or JSON objects a line."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from .errors import CaptureError


@dataclass(frozen=True)
class Prompt:
    text: str
    domain: str | None  # what kind of prompt it is, where the file says so
    line: int  # in the file, from 1


def read_prompts(path: str, prompt_field: str, domain_field: str) -> list[Prompt]:
    """From a file or, for "-", standard input. A file whose first line that is not empty starts with { holds one JSON
    object a line; others hold one prompt a line. Empty lines are passed over."""
    name = "standard input" if path == "-" else path
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CaptureError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CaptureError(f"{name}: byte {error.start}: not UTF-8") from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise CaptureError(f"{name}: no prompts")
    if not lines[0][1].lstrip().startswith("{"):
        return [Prompt(line, None, number) for number, line in lines]
    prompts = [_from_json(line, f"{name}:{number}", number, prompt_field, domain_field) for number, line in lines]
    for prompt in prompts:
        if (prompt.domain is None) != (prompts[0].domain is None):
            has = "no" if prompt.domain is None else "a"
            raise CaptureError(
                f"{name}:{prompt.line}: {has} {domain_field!r}, unlike line {prompts[0].line}: "
                "all prompts have one, or none has"
            )
    return prompts


def _from_json(line: str, place: str, number: int, prompt_field: str, domain_field: str) -> Prompt:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{place}: not JSON: {error}") from error
    if not isinstance(item, dict):
        raise CaptureError(f"{place}: expected a JSON object, as in the lines before")
    text, domain = item.get(prompt_field), item.get(domain_field)
    if not isinstance(text, str) or text == "":
        raise CaptureError(f"{place}: no text in {prompt_field!r}; the object has: {', '.join(item) or 'nothing'}")
    if domain is not None and not isinstance(domain, str):
        raise CaptureError(f"{place}: {domain_field!r} is not a text")
    return Prompt(text, domain, number)
