// What serving engines write: vLLM's responses, SGLang's recordings (data/sglang_*.pt, written by Python's
// pickle, see make_sglang_recordings.py).
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>

#include "tests/random_runs.hpp"
#include "tests/traces/import_files.hpp"
#include "traces/import/line_reader.hpp"
#include "traces/import/sglang_import.hpp"
#include "traces/import/table_import.hpp"
#include "traces/safetensors.hpp"

namespace moelab::import_engines_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

// RFC 4648, section 4.
std::string base64(const std::string& bytes) {
  const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j > bytes.size() ? '=' : digits[group >> (18 - 6 * j) & 63];
  }
  return text;
}

std::vector<std::vector<int>> rows_of(const RoutingTrace& trace) {
  std::vector<std::vector<int>> rows;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      const auto ids = trace.experts_of(token, layer);
      rows.emplace_back(ids.begin(), ids.end());
    }
  }
  return rows;
}

ImportTarget target_of(const std::filesystem::path& out, std::uint32_t experts) {
  ImportTarget target;
  target.out = out;
  target.experts = experts;
  return target;
}

std::filesystem::path recording(const std::string& name) {
  return std::filesystem::path(MOELAB_SOURCE_DIR) / "tests/traces/data" / name;
}

std::vector<std::uint64_t> counts_in(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const Tensor& tensor = *file.find("counts");
  std::vector<std::uint64_t> counts(tensor.data.size() / 8);
  std::memcpy(counts.data(), tensor.data.data(), tensor.data.size());
  return counts;
}

}  // namespace

TEST_CASE("a response of vLLM has a base64 .npy of every token that was run") {
  const ScratchFolder folder;
  // 2 prompt tokens and 2 generated ones: 3 rows, the last generated token is not run.
  const std::vector<std::int32_t> ids{1, 2, 3, 0, 0, 2, 1, 3, 2, 1, 0, 1};
  const std::string response =
      "{\"id\": \"a\", \"choices\": [{\"index\": 0, \"text\": \"x\", \"token_ids\": [5, 6], "
      "\"routed_experts\": \"" +
      base64(npy("<i4", {3, 2, 2}, bytes_of(ids))) +
      "\"}], \"usage\": {\"prompt_tokens\": 2, \"completion_tokens\": 2}, \"prompt_routed_experts\": null}\n";
  write_bytes(folder / "r.jsonl", response + response);
  import_vllm(folder / "r.jsonl", target_of(folder / "out", 4), false, {});
  const RoutingTrace trace = read_routing_trace(folder / "out");
  REQUIRE(trace.requests().size() == 2);
  CHECK(trace.requests()[1].decode_begin == 5);
  CHECK(rows_of(trace) ==
        std::vector<std::vector<int>>{
            {1, 2}, {3, 0}, {0, 2}, {1, 3}, {2, 1}, {0, 1}, {1, 2}, {3, 0}, {0, 2}, {1, 3}, {2, 1}, {0, 1}});
}

TEST_CASE("a response of vLLM 0.21 has nested lists, the prompt's beside the choices") {
  const ScratchFolder folder;
  write_bytes(folder / "r.jsonl",
              "{\"prompt_routed_experts\": [[[1, 2]], [[3, 0]]], \"choices\": [{\"routed_experts\": [[[0, "
              "1]], [[0, 0]]]}], "
              "\"usage\": {\"prompt_tokens\": 2, \"completion_tokens\": 2}}\n");
  CHECK_THAT(error_of([&] { import_vllm(folder / "r.jsonl", target_of(folder / "out", 4), false, {}); }),
             Contains("r.jsonl:1: choice 0 has experts for 4 tokens; expected 3") && Contains("--drop-last"));
  import_vllm(folder / "r.jsonl", target_of(folder / "out", 4), true, {});
  const RoutingTrace trace = read_routing_trace(folder / "out");
  CHECK(rows_of(trace) == std::vector<std::vector<int>>{{1, 2}, {3, 0}, {0, 1}});
  CHECK(trace.phase_of(1) == Phase::prefill);
  CHECK(trace.phase_of(2) == Phase::decode);
}

TEST_CASE("responses of vLLM that do not add up are refused with the line") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& text) {
    write_bytes(folder / "r.jsonl", text);
    return error_of([&] { import_vllm(folder / "r.jsonl", target_of(folder / "out", 4), false, {}); });
  };
  const std::string usage = ", \"usage\": {\"prompt_tokens\": 1, \"completion_tokens\": 1}}";
  CHECK(error("{\"choices\": [{\"routed_experts\": [[[1, 2]]]}]" + usage).empty());
  CHECK_THAT(error("{\"choices\": [{\"text\": \"\"}]" + usage),
             Contains("r.jsonl:1: has no choices[0].routed_experts"));
  CHECK_THAT(error("{\"choices\": [{\"routed_experts\": \"a\"}]" + usage), Contains("is not base64"));
  // Only a place in the list is one: other names could be as long as they like, once for each value below
  // them.
  CHECK_THAT(error("{\"choices[x\": [{\"routed_experts\": [[[1, 2]]]}]" + usage),
             Contains("r.jsonl:1: has no choices[0].routed_experts"));
  CHECK_THAT(error("{\"choices\": [{\"routed_experts\": [[[1, 2]]]}, {\"routed_experts\": [[[1, 2]]]}], "
                   "\"usage\": {\"prompt_tokens\": 0, \"completion_tokens\": 0}}"),
             Contains("r.jsonl:1: counts no tokens at all"));
  CHECK_THAT(error("{\"choices\": [{\"routed_experts\": [[[1, 2], [1]]]}]" + usage),
             Contains("r.jsonl:1:45: choices[0].routed_experts: an array of 1 values after one of 2"));
  CHECK_THAT(error("{\"choices\": [{\"routed_experts\": [[[1, 4]]]}]" + usage),
             Contains("expert 4 is out of range"));
  CHECK_THAT(error("{\"choices\": [{\"routed_experts\": [[[1, 2]]]}"), Contains("not JSON"));
}

TEST_CASE("SGLang's recording of one request at a time becomes its requests") {
  const ScratchFolder folder;
  const SglangImported made =
      import_sglang(recording("sglang_per_token.pt"), target_of(folder / "out", 0), false);
  CHECK_FALSE(made.counts);
  const RoutingTrace trace = read_routing_trace(folder / "out");
  REQUIRE(trace.experts() == 4);
  REQUIRE(trace.requests().size() == 2);
  CHECK(trace.requests()[0].decode_begin == 3);
  CHECK(trace.requests()[0].end == 4);
  // The dense layer 0 is left out; physical experts 0 and 1 of layer 2 are the logical ones 1 and 0.
  CHECK(rows_of(trace) ==
        std::vector<std::vector<int>>{
            {1, 2}, {1, 0}, {0, 3}, {2, 1}, {3, 1}, {3, 2}, {2, 0}, {0, 3}, {1, 0}, {1, 2}});
}

TEST_CASE("SGLang's recording of a batch is refused, or a request a pass") {
  const ScratchFolder folder;
  CHECK_THAT(
      error_of([&] { import_sglang(recording("sglang_batch.pt"), target_of(folder / "out", 0), false); }),
      Contains("record 0: a batch of 2 sequences") && Contains("--pass-is-request"));
  import_sglang(recording("sglang_batch.pt"), target_of(folder / "out", 0), true);
  const RoutingTrace trace = read_routing_trace(folder / "out");
  CHECK(trace.requests().size() == 1);
  CHECK(trace.tokens() == 2);
}

TEST_CASE("SGLang's counts, by pass and by step") {
  const ScratchFolder folder;
  CHECK(import_sglang(recording("sglang_per_pass.pt"), target_of(folder / "out", 0), false).amount == 2);
  CHECK(counts_in(folder / "out") ==
        std::vector<std::uint64_t>{0, 0, 0, 0, 5, 6, 7, 8, 2, 1, 3, 4, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0});
  // The second step of three has no counts at all: the recorder's buffer was not full.
  CHECK(import_sglang(recording("sglang_stat.pt"), target_of(folder / "out", 0), false).amount == 2);
  CHECK(counts_in(folder / "out") == std::vector<std::uint64_t>{3, 4, 5, 6});
}

TEST_CASE("damaged recordings give an error or the same trace") {
  const ScratchFolder folder;
  import_sglang(recording("sglang_per_token.pt"), target_of(folder / "good", 0), false);
  const std::string good = read_bytes(folder / "good"), bytes = read_bytes(recording("sglang_per_token.pt"));
  Random random(3);
  int refused = 0;
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    write_bytes(folder / "in", mutated(bytes, random));
    std::filesystem::remove(folder / "out");
    const std::string error =
        error_of([&] { import_sglang(folder / "in", target_of(folder / "out", 0), false); });
    refused += error.empty() ? 0 : 1;
    INFO("mutation " << i);
    if (error.empty()) REQUIRE(read_bytes(folder / "out") == good);
  }
  CHECK(refused > moelab::test::random_runs(1000, 150));
}

TEST_CASE("positions at the end of 64 bits are refused, not added up") {
  const ScratchFolder folder;
  // One record of one token at position 2^63 - 1: decoding goes on from a position that does not exist.
  const auto text = [](const std::string& s) {
    return "X" + bytes_of(std::vector<std::uint32_t>{static_cast<std::uint32_t>(s.size())}) + s;
  };
  const auto whole = [](std::int64_t value) { return "\x8a\x08" + bytes_of(std::vector{value}); };
  const std::string storage =
      "(" + text("storage") + "ctorch\nLongStorage\n" + text("0") + text("cpu") + "K\x01tQ";
  const std::string one = "K\x01", strides = "(" + one + one + one + "t";
  const std::string tensor =
      "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + std::string("K\0", 2) + strides + strides + "tR";
  const auto record = [&](std::int64_t position) {
    return "}(" + text("forward_mode") + "K\x02" + text("topk_ids_of_layer") + tensor + text("positions") +
           "](" + whole(position) + "eu";
  };
  const auto import = [&](const std::string& records) {
    write_bytes(folder / "in", zip({{"a/data.pkl", "\x80\x02}(" + text("records") + "](" + records + "eu."},
                                    {"a/data/0", bytes_of(std::vector<std::int64_t>{3})}}));
    return error_of([&] { import_sglang(folder / "in", target_of(folder / "out", 4), false); });
  };
  CHECK(import(record(6) + record(7)).empty());
  CHECK_THAT(import(record(std::numeric_limits<std::int64_t>::max())),
             Contains("record 0: 'positions' has 9223372036854775807, which is no position"));
  CHECK_THAT(import(record(-1)), Contains("record 0: 'positions' has -1"));
}

TEST_CASE("a pickle cannot ask for more memory than its length accounts for") {
  const ScratchFolder folder;
  const auto import = [&](const std::string& pickle) {
    write_bytes(folder / "in", zip({{"a/data.pkl", "\x80\x02" + pickle + "."}}));
    return error_of([&] { import_sglang(folder / "in", target_of(folder / "out", 4), false); });
  };
  const auto storage = [](const std::string& key) {
    return "(X" + bytes_of(std::vector<std::uint32_t>{1}) + "sctorch\nLongStorage\nX" +
           bytes_of(std::vector{static_cast<std::uint32_t>(key.size())}) + key + "NK\x01tQ";
  };
  // Every call would keep its own copy of the sizes.
  std::string sizes = "(";
  for (int i = 0; i < 65; ++i) sizes += "K\x01";
  sizes += "t";
  CHECK_THAT(import("ctorch._utils\n_rebuild_tensor_v2\n(" + storage("0") + std::string("K\0", 2) + sizes +
                    sizes + "tR"),
             Contains("a tensor of 65 dimensions; at most 64 are read"));
  // Deflated, opcodes take a thousandth of their length, and far less than what they make.
  CHECK_THAT(import("(" + std::string(std::size_t{1} << 24, 'N')), Contains("has more than 2^24 opcodes"));
  // And every storage a copy of its key.
  CHECK_THAT(import(storage(std::string(65, '0'))), Contains("a storage whose key is longer than 64 bytes"));
}

TEST_CASE("a line without an end is refused before it fills the memory") {
  const ScratchFolder folder;
  write_bytes(folder / "in", "{");
  std::filesystem::resize_file(folder / "in", std::uintmax_t{300} << 20);  // zeros, which take no room
  CHECK_THAT(error_of([&] {
               LineReader lines(folder / "in");
               std::string_view line;
               lines.next(line);
             }),
             Contains("in:1: the line is longer than 268435456 bytes; expected one request"));
}

TEST_CASE("pickles are read, never executed: damaged ones by themselves") {
  // The pickle alone, stored anew with a right checksum: what comes out may be another trace, but never a
  // crash.
  const ScratchFolder folder;
  const std::string bytes = read_bytes(recording("sglang_stat.pt"));
  const std::size_t begin = bytes.find("\x80\x02}"), end = bytes.find("PK", begin);
  const std::string pickle = bytes.substr(begin, end - begin);
  const std::string data = bytes_of(std::vector<std::int64_t>{3, 4, 0, 0, 5, 6});
  const auto import = [&](const std::string& changed) {
    write_bytes(folder / "in", zip({{"a/data.pkl", changed}, {"a/data/0", data}}));
    return error_of([&] { import_sglang(folder / "in", target_of(folder / "out", 0), false); });
  };
  CHECK(import(pickle).empty());
  CHECK_THAT(import("\x80\x02"
                    "cos\nsystem\nX\x04" +
                    std::string(3, '\0') + "true\x85R."),
             Contains("the Python name 'os system'; only tensors"));
  Random random(4);
  int refused = 0;
  for (int i = 0; i < moelab::test::random_runs(3000); ++i)
    refused += import(mutated(pickle, random)).empty() ? 0 : 1;
  CHECK(refused > moelab::test::random_runs(1000, 150));
}

}  // namespace moelab::import_engines_test
