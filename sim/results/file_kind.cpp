#include "sim/results/file_kind.hpp"

#include <algorithm>
#include <filesystem>

#include "models/lower_case.hpp"

namespace moelab {
namespace {

struct Kind {
  std::string_view mark;  // the first bytes, or the end of the name
  std::string_view what;
  std::string_view reader;  // FILE: the file's name; empty: none of moelab's commands reads it
};

constexpr Kind kByContent[] = {
    {"SQLite format 3", "a store of results", "'moelab results FILE' lists what is in it"},
    {"GGUF", "a model's weights (GGUF)", "'moelab model import FILE' reads what the model is from them"},
    {"\x89PNG", "a picture (PNG)", ""},
    {"\xff\xd8\xff", "a picture (JPEG)", ""},
    {"%PDF", "a document (PDF)", ""},
    {"<svg", "a picture (SVG)", ""},
    {"<?xml", "XML", ""},
    {"<!doctype html", "a page", "any browser shows it"},
    {"<html", "a page", "any browser shows it"},
    {"\x1f\x8b", "a gzipped file", "unpack it first"},
    {"PK\x03\x04", "an archive (ZIP)", "unpack it first"}};

constexpr Kind kByName[] = {
    {".safetensors", "a routing trace", "'moelab trace stats FILE' says what is in it"},
    {".pftrace", "a timeline", "https://ui.perfetto.dev shows it"},
    {".csv", "a table (CSV)", ""},
    {".tsv", "a table", ""},
    {".jsonl", "a list of JSON values, one a line", ""}};

/// Of YAML, by the key that only such a file has.
constexpr Kind kYaml[] = {{"systems:", "a scenario", "'moelab run FILE --out result.json' runs it"},
                          {"axes:", "a sweep", "'moelab sweep FILE --db results.db' runs it"}};

std::string said(const Kind& kind, const std::string& file) {
  std::string text = "looks like " + std::string(kind.what);
  if (kind.reader.empty()) return text;
  std::string reader(kind.reader);
  constexpr std::string_view kFile = "FILE";
  if (const std::size_t at = reader.find(kFile); at != std::string::npos)
    reader.replace(at, kFile.size(), file);
  return text + "; " + reader;
}

bool has_line(std::string_view text, std::string_view begin) {
  return text.starts_with(begin) || text.find("\n" + std::string(begin)) != std::string_view::npos;
}

}  // namespace

std::string kind_of_file(const std::string& file, std::string_view text) {
  constexpr std::size_t kLongestMark = 16;
  const std::string begin = lower_case(std::string(text.substr(0, kLongestMark)));
  for (const Kind& kind : kByContent)
    if (begin.starts_with(lower_case(std::string(kind.mark)))) return said(kind, file);
  const std::string name = lower_case(std::filesystem::path(file).filename().string());
  for (const Kind& kind : kByName)
    if (name.ends_with(kind.mark)) return said(kind, file);
  if (!name.ends_with(".yaml") && !name.ends_with(".yml")) return "";
  for (const Kind& kind : kYaml)
    if (has_line(text, kind.mark)) return said(kind, file);
  return "looks like YAML; results are JSON";
}

}  // namespace moelab
