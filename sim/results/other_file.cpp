#include "sim/results/other_file.hpp"

#include <array>
#include <cstdint>

#include "models/lower_case.hpp"
#include "sim/results/result_json.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

/// How files of a kind begin.
struct Beginning {
  std::string_view bytes;
  const char* what;
};

constexpr std::array<Beginning, 9> kBeginnings = {{
    {"\x89PNG", "is a picture (PNG)"},
    {"\xff\xd8\xff", "is a picture (JPEG)"},
    {"%PDF", "is a PDF document"},
    {"<svg", "is a picture (SVG), which a browser opens"},
    {"<!DOCTYPE html", "is an HTML page, which a browser opens"},
    {"<!doctype html", "is an HTML page, which a browser opens"},
    {"GGUF", "is a GGUF file; 'moelab model import FILE' reads one of a model's weights"},
    {"SQLite format 3", "is a store of results; 'moelab results FILE' lists them"},
    {"\x93NUMPY",
     "is a NumPy array; 'moelab trace import npy FILE --experts N --out trace.safetensors' reads one of "
     "experts"},
}};

/// Whether a line begins with this key of a YAML map, in its outermost level.
bool has_key(std::string_view text, const std::string& key) {
  const std::string line = key + ":";
  return text.starts_with(line) || text.find("\n" + line) != text.npos;
}

/// A safetensors file: the length of its header in 8 bytes, and the header, a JSON object.
bool is_safetensors(std::string_view text) {
  if (text.size() < 10 || text[8] != '{') return false;
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(text[i]);
  return length >= 2 && length < (std::uint64_t{1} << 32);
}

/// Of a file that is not a part of a scenario; "" of those that may be.
std::string kind_of_whole_yaml(std::string_view text) {
  if (has_key(text, "axes") && has_key(text, "scenario"))
    return "is a sweep; 'moelab sweep FILE --db results.db' runs it";
  if (has_key(text, "systems"))
    return "is a scenario; 'moelab run FILE --out result.json' runs it and writes a result";
  if (text.find("format: moelab-routing-law") != text.npos)
    return "is a law of routing; 'moelab trace generate FILE --out trace.safetensors' draws a trace from it, "
           "and "
           "a scenario does whose workload has law: FILE";
  return "";
}

std::string kind_of_yaml(std::string_view text) {
  if (std::string kind = kind_of_whole_yaml(text); !kind.empty()) return kind;
  return "is a YAML file, which a scenario may name; 'moelab run SCENARIO --out result.json' writes a result";
}

std::string kind_of_name(const std::string& file, std::string_view text) {
  const std::string name = lower_case(file);
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return kind_of_yaml(text);
  if (name.ends_with(".pftrace"))
    return "is a timeline of a run; https://ui.perfetto.dev shows it; 'moelab run SCENARIO --out "
           "result.json' "
           "writes a result";
  if (name.ends_with(".csv") && text.starts_with("system,") && text.find(",started_s,") != text.npos)
    return "has a line for each request of runs; 'moelab report' draws those of a .jsonl file, which "
           "--requests "
           "and --records write as well";
  if (name.ends_with(".csv"))
    return "is a CSV table; 'moelab trace import csv FILE --experts N --out trace.safetensors' reads one of "
           "routing, and 'moelab trace import-requests log FILE --out requests.csv' one of requests";
  if (name.ends_with(".jsonl"))
    return "holds a JSON document a line; 'moelab trace import jsonl FILE --experts N --out "
           "trace.safetensors' "
           "reads routing, and 'moelab trace import-requests KIND FILE --out requests.csv' requests";
  return "";
}

std::string with_file(std::string what, const std::string& file) {
  constexpr std::string_view kFile = "FILE";
  if (const std::size_t quote = what.find('\''); quote != what.npos)
    for (std::size_t at = what.find(" FILE", quote); at != what.npos;
         at = what.find(" FILE", at + 1 + file.size()))
      what.replace(at + 1, kFile.size(), file);
  return what;
}

}  // namespace

std::string kind_of_text(const std::string& file, std::string_view text) {
  for (const auto& [bytes, what] : kBeginnings)
    if (text.starts_with(bytes)) return with_file(what, file);
  if (is_safetensors(text))
    return with_file("is a safetensors file; 'moelab trace stats FILE' reads one that is a trace", file);
  return with_file(kind_of_name(file, text), file);
}

std::string kind_of_config(const std::string& file, std::string_view text) {
  return with_file(kind_of_whole_yaml(text), file);
}

std::string kind_of_document(const std::string& file, const Json& document) {
  if (!document.is_object()) return "";
  const auto has = [&](const char* key) { return document.contains(key); };
  const std::string report = "'moelab report FILE --out report.html' shows them";
  if (has("load_format")) return with_file("holds results of 'moelab load'; " + report, file);
  if (has("world_format")) return with_file("holds results of experiments/world/run.sh; " + report, file);
  if (has("model_type"))
    return with_file("is a model's config.json; 'moelab model import FILE' reads it", file);
  if (has("traceEvents")) return "is a timeline in the Chrome format; https://ui.perfetto.dev shows it";
  return "";
}

std::string newer_format(const Json& result) {
  if (!result.is_object()) return "";
  const auto found = result.find("result_format");
  if (found == result.end() || !found->is_number()) return "";
  const bool known = found->is_number_integer() && found->get<double>() <= kResultFormat;
  return known ? ""
               : "has result_format " + found->dump() + ", and this version of moelab reads formats up to " +
                     std::to_string(kResultFormat) + "; read it with the version that wrote it";
}

}  // namespace moelab
