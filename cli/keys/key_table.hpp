// The keys of every kind of file, as their readers ask for them while they read the program's own files: what
// is here is what they take.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/yaml_asked.hpp"

namespace moelab::cli {

/// A kind of file that people write: the first part of its keys' paths. The program's own are in
/// configs/NAMEs.
struct FileKind {
  std::string_view name;   // "scenario"
  std::string_view title;  // "what is simulated: ..."
};
inline constexpr std::array<FileKind, 9> kFileKinds = {
    {{"scenario", "what is simulated: a model on a device or a cluster, a workload, and systems"},
     {"system", "a composition of policies that serves a model"},
     {"device", "a machine: its memory, processors, storage and links, each number with its source"},
     {"cluster", "several servers and the network between them"},
     {"model", "an architecture: its layers, attention, experts and weights"},
     {"sweep", "many runs of a scenario, over what varies"},
     {"runtime",
      "what a serving engine's software costs apart from the machine: launches, steps, shares of rates"},
     {"law", "how a model's tokens choose experts, from which routing is drawn where none was recorded"},
     {"part", "tables of GPUs, CPUs and SSDs by their data sheets, which machines are put together from"}}};
/// Files of all of them, in a sentence.
inline constexpr const char* kFileKindsText =
    "scenarios, systems, devices, clusters, models, sweeps, runtimes, laws of routing and parts of machines";

struct KeyRow {
  std::string path = {};             // "system.cache.policy"; "[]": of each entry of a list
  std::vector<AskedKey> forms = {};  // in which it is taken
  bool sourced = false;              // stands as {value: ..., source: ...}, or is a curve with its source
  bool curve = false;                // of those: stands as {points: ...} or {latency: ..., rate: ...} too
  bool needed = false;               // wherever the map that it is in stands
  std::optional<std::string> fallback = {};
  std::string meaning = {};
  std::string policy = {};   // whose parameter it is; "": a key of the reader's own
  std::string example = {};  // a value in YAML's flow style, as key_examples() has it; "": none
  bool operator==(const KeyRow&) const = default;
};

/// By path, a section before what is in it: as it was read while building; read anew where libraries have
/// brought policies, and in a program that was built for another machine than it was built on.
std::vector<KeyRow> key_table();

/// The kinds of files that keys are of, in their order: "cluster", "device", "scenario", "system".
std::vector<std::string> file_kinds(const std::vector<KeyRow>& keys);

/// "whole number from 1 to 1024", "one of lru, fifo", "number at least 0 or map".
std::string taken_text(const KeyRow& row);

/// What a key is for; "" of one that is not known. Of policies' parameters their own tables say it.
std::string_view key_meaning(std::string_view path);

}  // namespace moelab::cli
