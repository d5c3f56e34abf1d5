// Writes the seeds of all fuzz targets into FOLDER/TARGET/: small good files of every form, made by the
// project's writers where it has them and by hand elsewhere. usage: fuzz_make_seeds FOLDER
#include <filesystem>
#include <iostream>

#include "tests/fuzz/seed_tables.hpp"
#include "tests/models/gguf_file.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/traces/import_files.hpp"
#include "tests/traces/torch_files.hpp"
#include "traces/counts_trace.hpp"
#include "traces/import/zip_archive.hpp"
#include "traces/routing_trace.hpp"
#include "traces/safetensors.hpp"

using namespace moelab;
using namespace moelab::test;

namespace {

std::filesystem::path g_folder;

void seed(const std::string& target, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(g_folder / target);
  write_bytes(g_folder / target / name, bytes);
}

// A part as Input::parts() reads it.
std::string part(std::uint8_t tag, const std::string& bytes) {
  return static_cast<char>(tag) +
         bytes_of(std::vector<std::uint16_t>{static_cast<std::uint16_t>(bytes.size())}) + bytes;
}

std::string form(unsigned flags) {
  return std::string(1, static_cast<char>(flags));
}

RoutingTrace small_trace(TraceDescription about) {
  about.model = "seed";
  about.provenance = "make_seeds";
  about.layers = 2;
  about.experts = 4;
  about.top_k = 2;
  const std::vector<std::uint16_t> ids{3, 1, 0, 2}, candidates{3, 1, 2, 0, 2, 1};
  const std::vector<float> scores{0.75F, 0.25F, 0.5F, 0.5F}, router{4, 3, 2, 1, 1, 2, 3, 4};
  TraceRow row;
  row.ids = ids;
  if (about.gate_scores) row.gate_scores = scores;
  if (about.router_width() != 0) row.router_scores = std::span(router).first(2 * about.router_width());
  if (about.candidates != 0) row.candidate_ids = candidates;
  const std::vector<std::uint16_t> ahead{kNoExpert, kNoExpert, 0, 3};
  if (about.lookahead) row.lookahead_ids = ahead;
  const std::uint16_t last = about.domains.empty() ? 0 : 1;
  RoutingTraceBuilder builder(about);
  for (const std::uint16_t domain : {std::uint16_t{0}, last}) {
    builder.begin_request(domain);
    for (const Phase phase : {Phase::prefill, Phase::prefill, Phase::decode}) {
      row.phase = phase;
      builder.add_token(row);
    }
  }
  return builder.finish();
}

void trace_seed(const std::string& name, const TraceDescription& about) {
  const ScratchFolder folder;
  write_routing_trace(small_trace(about), folder / "t");
  seed("routing_trace", name, read_bytes(folder / "t"));
}

void trace_seeds() {
  TraceDescription about;
  trace_seed("plain", about);
  about.gate_scores = true;
  trace_seed("scores", about);
  about.domains = {"code", "chat"};
  about.lookahead = true;
  about.router_scores = RouterScores::logits;
  trace_seed("all", about);
  about.router_scores = RouterScores::softmax;
  about.candidates = 3;
  trace_seed("candidates", about);
}

// Scores that no writer of ours makes: halves, and a tensor that is not aligned.
void half_seeds() {
  const ScratchFolder folder;
  const std::vector<std::uint16_t> ids{1, 0, 0, 1}, halves{0x3c00, 0x3800, 0x3c00, 0x3800};
  const std::vector<std::uint64_t> offsets{0, 2};
  const std::vector<std::uint8_t> phases{1, 2};
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const std::vector<Tensor> tensors{{"request_offsets", Dtype::u64, {2}, std::as_bytes(std::span(offsets))},
                                      {"expert_ids", Dtype::u16, {2, 1, 2}, std::as_bytes(std::span(ids))},
                                      {"gate_scores", dtype, {2, 1, 2}, std::as_bytes(std::span(halves))},
                                      {"router_scores", dtype, {2, 1, 2}, std::as_bytes(std::span(halves))},
                                      {"phases", Dtype::u8, {2}, std::as_bytes(std::span(phases))}};
    write_safetensors(folder / "t", tensors,
                      {{"format", "moelab-routing"},
                       {"format_version", "2"},
                       {"model", ""},
                       {"experts", "2"},
                       {"provenance", ""},
                       {"kind", "synthetic"},
                       {"router_scores", "sigmoid"}});
    seed("routing_trace", std::string(name_of(dtype)), read_bytes(folder / "t"));
  }
  const std::string header =
      R"({"__metadata__":{"format":"moelab-routing","format_version":"1","model":"","experts":"4","provenance":"",)"
      R"("kind":"recorded"},"phases":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"expert_ids":{"dtype":"U16",)"
      R"("shape":[1,1,2],"data_offsets":[1,5]},"request_offsets":{"dtype":"U64","shape":[2],)"
      R"("data_offsets":[5,21]}})";
  seed("routing_trace", "misaligned",
       container(header, form(1) + bytes_of(std::vector<std::uint16_t>{3, 1}) +
                             bytes_of(std::vector<std::uint64_t>{0, 1})));
}

void container_seeds() {
  seed("safetensors", "empty", container("{}", ""));
  seed("safetensors", "kinds",
       container(R"({"__metadata__":{"a":"b\u00e9\n"},"x":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},)"
                 R"("y":{"shape":[],"dtype":"C64","data_offsets":[2,10]},)"
                 R"("z":{"dtype":"F8_E4M3","shape":[0,3],"data_offsets":[10,10]}} )",
                 std::string(10, '\1')));
  seed("safetensors", "deep", container("{\"__metadata__\":[[[[{}]]]]}", ""));
  const ScratchFolder folder;
  write_counts_trace(CountsTrace({"seed", "make_seeds", false, 2, 2, 3, 2, {"a", "b"}},
                                 {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 0}),
                     folder / "c");
  seed("counts_trace", "domains", read_bytes(folder / "c"));
  seed("safetensors", "counts", read_bytes(folder / "c"));
  write_counts_trace(CountsTrace({"", "", true, 1, 1, 2, 0, {}}, {0, 1}), folder / "c");
  seed("counts_trace", "plain", read_bytes(folder / "c"));
}

void array_seeds() {
  const std::string all =
      npy("<u2", {3, 2, 2}, bytes_of(std::vector<std::uint16_t>{1, 2, 3, 0, 0, 2, 1, 3, 2, 1, 5, 4}));
  const std::string ids =
      npy("<i4", {3, 2, 2}, bytes_of(std::vector<std::int32_t>{1, 2, 3, 0, 0, 2, 1, 3, 2, 1, -1, -1}));
  const std::string bytes = npy("|u1", {3, 1, 2}, bytes_of(std::vector<std::uint8_t>{1, 2, 3, 0, 0, 2}));
  const std::string scores = npy("<f4", {3, 2, 2}, bytes_of(std::vector<float>(12, 0.5F)));
  const std::string halves = npy("<u2", {3, 2, 2}, bytes_of(std::vector<std::uint16_t>(12, 0x3f00)));
  const std::string router = npy("<f2", {3, 2, 8}, bytes_of(std::vector<std::uint16_t>(48, 0x3c00)));
  const std::string offsets = npy("<i8", {3}, bytes_of(std::vector<std::int64_t>{0, 2, 3}));
  const std::string phases = npy("|u1", {3}, bytes_of(std::vector<std::uint8_t>{1, 2, 1}));
  for (const auto& [name, array] :
       {std::pair{"ids", ids}, {"bytes", bytes}, {"scores", scores}, {"router", router}})
    seed("npy", name, array);
  seed("npz", "packed",
       form(30) + part(0, all) + part(1, scores) + part(2, router) + part(3, offsets) + part(4, phases));
  seed("npz", "bf16", form(34) + part(0, all) + part(1, halves));
  seed("npz", "ids", form(0) + part(0, bytes));
  seed("npz", "archive", form(3) + zip({{"ids.npy", all}, {"scores.npy", scores}}));
}

// The recordings that Python wrote, whole, and their members one by one.
void sglang_seeds() {
  for (const char* name : {"sglang_batch", "sglang_per_pass", "sglang_per_token", "sglang_stat"}) {
    const std::string path = std::string(MOELAB_SOURCE_DIR) + "/tests/traces/data/" + name + ".pt";
    const ZipArchive archive(path);
    std::string packed;
    for (const ZipMember& member : archive.members()) {
      const std::string file = member.name.substr(member.name.find('/') + 1);
      const bool known = file == "data.pkl" || file == "byteorder" || file.starts_with("data/");
      if (!known) continue;
      const unsigned tag = file == "data.pkl"    ? 0
                           : file == "byteorder" ? 255
                                                 : 1 + static_cast<unsigned>(std::stoul(file.substr(5)));
      packed += part(static_cast<std::uint8_t>(tag), archive.read(member, 65535));
    }
    seed("sglang", std::string(name) + "_archive", form(1) + read_bytes(path));
    seed("sglang", std::string(name) + "_packed", form(2) + packed);
    seed("sglang", std::string(name) + "_requests", form(4) + packed);
  }
}

// One of each form that is read, and a tensor among others by name.
void counts_file_seeds() {
  const std::vector<std::int64_t> counts{3, 0, 5, 1, 2, 9};
  const auto packed = [](const PickleText& p, const std::string& value) {
    std::string parts = part(0, p.text + value + ".");
    for (std::size_t i = 0; i < p.storages.size(); ++i)
      parts += part(static_cast<std::uint8_t>(i + 1), p.storages[i]);
    return parts;
  };
  PickleText one, named, listed;
  const std::string tensor = one.tensor("LongStorage", {2, 3}, counts);
  seed("counts_files", "tensor", form(0) + packed(one, tensor));
  seed("counts_files", "archive", form(2) + one.file(tensor));
  const std::string dict =
      "}(" + PickleText::unicode("other") + named.tensor("FloatStorage", {2}, std::vector<float>{1, 2}) +
      PickleText::unicode("counts") + named.tensor("LongStorage", {1, 2, 3}, counts) + "u";
  seed("counts_files", "named", form(4) + packed(named, dict));
  std::string list = "](";
  for (int layer = 0; layer < 2; ++layer)
    list += listed.tensor("FloatStorage", {3}, std::vector<float>{1, 0, 7});
  seed("counts_files", "layers", form(0) + packed(listed, list + "e"));
  seed("counts_files", "imatrix",
       form(1) + imatrix({{"blk.1.ffn_up_exps.weight.counts", {3, 0, 5}},
                          {"blk.2.ffn_up_exps.weight.counts", {1, 2, 9}}}));
}

void text_seeds() {
  for (const TextSeed& text : kTextSeeds) seed(text.target, text.name, form(text.form) + text.text);
  for (const PlainSeed& text : kPlainSeeds) seed(text.target, text.name, text.text);
  const auto config = [](const std::string& path) {
    return read_bytes(std::string(MOELAB_SOURCE_DIR) + "/configs/" + path + ".yaml");
  };
  for (const char* name : {"deepseek-v3", "qwen3-next-80b-a3b", "switch-large-128", "gpt-oss-20b",
                           "granite-4.0-h-tiny", "nemotron-3-nano-30b-a3b"})
    seed("model", name, config(std::string("models/") + name));
  seed("device", "orin", config("devices/jetson-agx-orin-32gb"));
  seed("machine_record", "paced",
       read_bytes(std::string(MOELAB_SOURCE_DIR) + "/hw/machines/amd-epyc-2-paced.json"));
  for (const char* name : {"switch-orin", "zipmoe-orin"})
    seed("scenario", name, form(0) + config(std::string("scenarios/") + name));
  for (const char* name : {"zipmoe", "moe-infinity", "zipmoe-prototype", "zipmoe-unplanned"})
    seed("scenario", name, form(1) + config(std::string("systems/") + name));
}

// Changes to a good store: none; a row's bytes; the numbers of pages in the first page.
void store_seeds() {
  seed("store", "good", form(2));
  seed("store", "row", form(2) + part(4, std::string("\xf0\x0f", 2) + "\x7f\x7f\x7f\x7f"));
  seed("store", "header", form(0) + part(0, std::string("\x1c\0\0\0\0\1", 6)));
  seed("store", "empty_file", form(1));
}

// Small models: every kind of attention, with and without experts.
void gguf_seeds() {
  for (std::uint64_t number = 0; number < 12; ++number) {
    Dice dice(number);
    Architecture a = random_architecture(dice);
    if (a.has_encoder()) continue;
    if (a.layers.size() > 3) a.layers.resize(3);
    seed("gguf", "model" + std::to_string(number), GgufOfModel(a).file.header());
  }
  seed("gguf", "package",
       read_bytes(std::filesystem::path(MOELAB_SOURCE_DIR) / "tests/models/tiny-qwen3moe.gguf"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: fuzz_make_seeds FOLDER\n";
    return 2;
  }
  g_folder = argv[1];
  trace_seeds();
  half_seeds();
  container_seeds();
  array_seeds();
  sglang_seeds();
  counts_file_seeds();
  text_seeds();
  store_seeds();
  gguf_seeds();
}
