#!/usr/bin/env python3
"""Prompt tokens of a Mooncake log (JSON lines, gzipped) that a cache without bounds has when each request comes:
whole blocks of the longest beginning that any request before it had, its last token left out.

usage: prefix_hits.py FILE REQUESTS BLOCK_TOKENS     prints the tokens that are found, and all
"""
import gzip
import itertools
import json
import sys

HASHED = 512  # tokens that each of hash_ids stands for


def main(file, requests, block):
    found, tokens = 0, 0
    longest = {}  # a beginning, as its ids, and the longest prompt that had it
    with gzip.open(file, "rt") as lines:
        for line in itertools.islice(lines, requests):
            record = json.loads(line)
            prompt, ids = record["input_length"], tuple(record["hash_ids"])
            common = 0
            for n in range(1, len(ids) + 1):
                if ids[:n] not in longest:
                    break
                common = min(n * HASHED, prompt, longest[ids[:n]])
            found += min(common, prompt - 1) // block * block
            tokens += prompt
            for n in range(1, len(ids) + 1):
                longest[ids[:n]] = max(prompt, longest.get(ids[:n], 0))
    print(found, tokens)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
