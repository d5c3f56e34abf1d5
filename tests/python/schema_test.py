"""The schemas of `moelab schema`: valid by the standard's own, true of every shipped file, and never stricter than the reader."""

import copy
import functools
import json
import os
import pathlib
import random
import subprocess

import pytest

jsonschema = pytest.importorskip("jsonschema")

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("MOELAB_PROGRAM") or str(SOURCE / "build/release/cli/moelab")
KINDS = ["scenario", "system", "device", "cluster", "model", "sweep", "runtime", "law", "part"]
MUTANTS = 12  # of each scenario


def moelab(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def printed(*arguments):
    done = moelab(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def schema(kind):
    return printed("schema", kind)


@functools.cache
def validator(kind):
    return jsonschema.Draft202012Validator(schema(kind))


def errors(kind, document):
    return [f"{kind}: {e.json_path}: {e.message[:200]}" for e in validator(kind).iter_errors(document)]


def shipped(kind):
    files = sorted((SOURCE / "configs" / (kind + "s")).glob("*.yaml"))
    assert files
    return files


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid_by_its_meta_schema(kind):
    assert schema(kind)["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    jsonschema.Draft202012Validator.check_schema(schema(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_every_shipped_file_is_valid(kind):
    for file in shipped(kind):
        assert errors(kind, printed("show", str(file), "--format", "json")) == [], file


def test_every_kind_that_is_listed_has_a_schema():
    listed = [line.split()[0] for line in moelab("schema").stdout.splitlines()[1:] if not line.startswith(" ")]
    assert listed == KINDS


def test_editors_are_told_what_is_wrong():
    def says(kind, document, *words):
        found = errors(kind, document)
        assert len(found) >= 1 and all(any(word in one for one in found) for word in words), found

    system = printed("show", "zipmoe-lru", "--format", "json")
    says("system", {**system, "cahce": {}}, "'cahce' was unexpected")
    says("system", {**system, "cache": {**system["cache"], "policy": "lro"}}, "'lro' is not one of")
    says("system", {**system, "cache": {**system["cache"], "k": 2}}, "does not allow 2")  # lru-k's, and this is lru
    says("system", {**system, "cache": {"policy": "lru-k", "k": 65}}, "65 is greater than the maximum of 64")
    # A parameter of two policies has each one's own range: w-tinylfu's window is a share, score-average's counts.
    says("system", {**system, "cache": {"policy": "w-tinylfu", "window": 3}}, "3 is greater than the maximum of 1")
    assert errors("system", {**system, "cache": {"policy": "score-average", "window": 3}}) == []
    says("system", {key: value for key, value in system.items() if key != "name"}, "'name' is a required property")
    scenario = printed("show", "zipmoe-orin", "--format", "json")
    says("scenario", {**scenario, "budget": "20 Gb"}, "'20 Gb' does not match")
    says("scenario", {**scenario, "overrides": {"system": {"cahce": {}}}}, "'cahce' was unexpected")
    says("scenario", {**scenario, "systems": [{**system, "threads": 0}]}, "systems[0]")
    device = printed("show", "jetson-agx-orin-64gb", "--format", "json")
    device["ssd"]["read"].pop("source")
    says("device", device, "'source' is a required property")


class Mutation:
    """Changes one place of a document, as a mistake would."""

    def __init__(self, dice, document):
        self.dice = dice
        self.document = copy.deepcopy(document)

    def places(self, wanted):
        def below(node):
            for key in node if isinstance(node, dict) else range(len(node)):
                if wanted(node, key):
                    yield node, key
                if isinstance(node[key], (dict, list)):
                    yield from below(node[key])

        return list(below(self.document))

    def one(self, wanted):
        return self.dice.choice(self.places(wanted))

    def typo(self):
        node, key = self.one(lambda node, key: isinstance(node, dict))
        at = self.dice.randrange(len(key))
        node[key[:at] + "x" + key[at + 1:]] = node.pop(key)

    def missing(self):
        node, key = self.one(lambda node, key: isinstance(node, dict))
        del node[key]

    def other_type(self):
        node, key = self.one(lambda node, key: True)
        node[key] = self.dice.choice([v for v in ([], {}, "a word", 3, -1, True, None) if type(v) is not type(node[key])])

    def out_of_bounds(self):
        node, key = self.one(lambda node, key: isinstance(node[key], (int, float)))
        node[key] = self.dice.choice([-1, 0, 1.5, 1e12, -node[key]])

    def other_unit(self):
        node, key = self.one(lambda node, key: isinstance(node[key], str) and node[key][:1].isdigit() and " " in node[key])
        node[key] = node[key].split(" ")[0] + self.dice.choice(["", " GB/s", " GB", " s", " parsec", " GB extra"])

    def other_name(self):
        node, key = self.one(lambda node, key: key in ("policy", "weights", "domain", "keep_as", "topology", "event"))
        node[key] = self.dice.choice(["lru-k", "none", "lro", "whole", "whales", "F", "star"])

    KINDS = [typo, missing, other_type, out_of_bounds, other_unit, other_name]


def refused_by_schemas(document):
    found = errors("scenario", document)
    systems = document.get("systems")
    for system in systems if isinstance(systems, list) else []:
        if isinstance(system, dict):
            found += errors("system", system)
    for kind in ("model", "device", "cluster"):
        if isinstance(document.get(kind), dict):
            found += errors(kind, document[kind])
    return found


def test_what_a_schema_refuses_the_reader_refuses(tmp_path):
    dice = random.Random(27)
    refused = {kind.__name__: 0 for kind in Mutation.KINDS}
    for file in shipped("scenario"):
        # With its device or cluster, and its systems, in the place of their names.
        whole = printed("show", file.stem, "--kind", "scenario", "--resolved", "--format", "json")
        assert refused_by_schemas(whole) == [], file
        for number in range(MUTANTS):
            kind = Mutation.KINDS[number % len(Mutation.KINDS)]
            mutation = Mutation(dice, whole)
            try:
                kind(mutation)
            except IndexError:  # no such place in this one
                continue
            found = refused_by_schemas(mutation.document)
            if not found:
                continue
            refused[kind.__name__] += 1
            mutant = tmp_path / "mutant.yaml"
            mutant.write_text(json.dumps(mutation.document))
            assert moelab("check", str(mutant)).returncode == 2, (file.stem, kind.__name__, found)
    assert all(count > 5 for count in refused.values()), refused
