// Forged indexes, with a checksum that is right and contents that are not: refused before a byte
// of the data is read by them.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "hw/store/chunk_store_writer.hpp"
#include "hw/store/index_columns.hpp"
#include "tests/hw/small_stores.hpp"

namespace moelab::chunk_index_test {
namespace {

using namespace moelab::test;
using Catch::Matchers::Contains;

/// The columns and texts of an index, to be changed and written again.
struct Forgery {
  ChunkStoreDescription description;
  std::uint64_t data_bytes;
  std::vector<Tensor> columns;
  std::vector<std::vector<std::byte>> bytes;

  explicit Forgery(const SafetensorsFile& file, const ChunkStoreReader& store)
      : description(store.description()), data_bytes(store.index().data_bytes()) {
    for (const Tensor& column : file.tensors()) {
      bytes.emplace_back(column.data.begin(), column.data.end());
      columns.push_back(column);
    }
  }
  std::size_t at(const std::string& name) const {
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].name == name) return i;
    throw std::out_of_range(name);
  }
  template <typename T>
  void set(const std::string& name, std::size_t element, T value) {
    std::memcpy(bytes[at(name)].data() + element * sizeof value, &value, sizeof value);
  }
  void drop(const std::string& name) {
    bytes.erase(bytes.begin() + static_cast<long>(at(name)));
    columns.erase(columns.begin() + static_cast<long>(at(name)));
  }
  void write(const std::filesystem::path& path) {
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].data = bytes[i];
    write_index_columns(path, description, data_bytes, columns);
  }
};

TEST_CASE("an index whose contents contradict each other is refused, whatever its checksum") {
  const ScratchFolder folder;
  const SyntheticSource source(small_experts(1, 2, 30, 40), 81);
  pack(source, folder / "store", {"fixed3", 2, 1, {}});
  const auto path = folder / "store" / "index.safetensors";
  const Forgery sound(SafetensorsFile::open(path), ChunkStoreReader(folder / "store"));
  const std::uint64_t far = ~std::uint64_t{4095};
  // Chunks of the first tensor are 0, 1 (E) and 2 (SM), of the second 3, 4 and 5.
  const std::vector<std::pair<const char*, std::function<void(Forgery&)>>> forgeries = {
      {"", [](Forgery&) {}},  // the forger's own work is sound
      {"offset", [](Forgery& f) { f.set("offsets", 1, std::uint64_t{8192}); }},
      {"offset", [](Forgery& f) { f.set("offsets", 0, std::uint64_t{1}); }},
      {"offset", [&](Forgery& f) { f.set("offsets", 5, far); }},
      {"stored bytes", [](Forgery& f) { f.set("stored_bytes", 0, std::uint64_t{5000}); }},
      {"stored bytes", [&](Forgery& f) { f.set("stored_bytes", 4, far); }},
      {"stored bytes", [](Forgery& f) { f.set("stored_bytes", 2, std::uint64_t{1199}); }},
      {"codec", [](Forgery& f) { f.set("codecs", 0, std::uint8_t{2}); }},
      {"codec", [](Forgery& f) { f.set("codecs", 2, std::uint8_t{1}); }},
      {"stored bytes", [](Forgery& f) { f.set("codecs", 0, std::uint8_t{0}); }},
      {"data_bytes", [](Forgery& f) { f.data_bytes += 4096; }},
      {"codec", [](Forgery& f) { f.description.codec = "fixed4"; }},
      {"'kinds'", [](Forgery& f) { f.description.weights.kinds.pop_back(); }},
      {"rows", [](Forgery& f) { f.set("shapes", 0, std::uint64_t{0}); }},
      {"stored bytes", [](Forgery& f) { f.set("shapes", 0, std::uint64_t{41}); }},
      {"rows", [&](Forgery& f) { f.set("shapes", 0, far); }},
      {"exponent_counts", [](Forgery& f) { f.set("exponent_counts", 0, std::uint64_t{1}); }},
      {"exponent_counts", [&](Forgery& f) { f.set("exponent_counts", 120, far); }},
      {"exponent_entropy", [](Forgery& f) { f.set("exponent_entropy", 0, std::nan("")); }},
      {"exponent_entropy", [](Forgery& f) { f.set("exponent_entropy", 5, 9.0); }},
      {"'offsets'", [](Forgery& f) { f.drop("offsets"); }},
      {"'codecs'", [](Forgery& f) { f.drop("codecs"); }},
      {"'codecs'", [](Forgery& f) { f.columns[f.at("codecs")].shape = {18}; }},
      {"'checksums'", [](Forgery& f) { f.columns[f.at("checksums")].dtype = Dtype::i64; }},
      {"'offsets'",
       [](Forgery& f) {
         f.columns[f.at("offsets")].shape = {1, 2, 9, 1};
       }},
  };
  for (const auto& [message, change] : forgeries) {
    Forgery forged = sound;
    change(forged);
    forged.write(path);
    std::string found;
    try {
      ChunkStoreReader store(folder / "store");
    } catch (const InputError& error) {
      found = to_string(error.problems().front());
      CHECK_THAT(found, Contains("index.safetensors"));
    }
    CHECK_THAT(found, Contains(message));
    CHECK(found.empty() == (std::string_view(message).empty()));
  }
}

TEST_CASE("files that are safetensors but no index, or of another version, are told from one") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "store");
  const auto path = folder / "store" / "index.safetensors";
  for (const auto& [metadata, message] : std::vector<std::pair<TensorMetadata, std::string>>{
           {{}, "no 'format'"},
           {{{"format", "pt"}}, "is not the index of a chunk store"},
           {{{"format", "moelab chunk store"}, {"version", "2"}}, "version '2'"},
           {{{"format", "moelab chunk store"}, {"version", "1"}, {"checksum", "0"}}, "damaged"}}) {
    write_safetensors(path, {}, metadata);
    CHECK_THROWS_WITH(ChunkStoreReader(folder / "store"), Contains(message));
  }
}

TEST_CASE("a tensor whose chunks are sound but which is not what was packed is never given out") {
  const ScratchFolder folder;
  const SyntheticSource source(small_experts(1, 1, 30, 40), 82);
  ChunkStoreWriter writer(folder / "store", {source.weights(), "fixed3", 2}, source.identity());
  for (std::uint64_t t = 0; t < 3; ++t) {
    TensorChunks chunks = make_tensor_chunks(*find_codec("fixed3"), tensor_of(source, t), 2);
    chunks.tensor_checksum ^= t == 1;
    CHECK_THROWS_AS(writer.add(make_tensor_chunks(*find_codec("fixed3"), tensor_of(source, t), 3), {}),
                    std::invalid_argument);
    CHECK_THROWS_AS(writer.add(make_tensor_chunks(*find_codec("huffman"), tensor_of(source, t), 2), {}),
                    std::invalid_argument);
    ByteCounts exponents{};
    for (const std::uint16_t weight : tensor_of(source, t)) ++exponents[weight >> 7 & 0xff];
    writer.add(chunks, exponents);
  }
  writer.finish();
  const ChunkStoreReader store(folder / "store");
  CHECK_NOTHROW(tensor_of(store, 0));
  CHECK_THROWS_WITH(tensor_of(store, 1), Contains("layer 1, expert 0, up") && Contains("tensor's checksum"));
  CHECK_NOTHROW(tensor_of(store, 2));
  std::vector<std::uint16_t> fewer(7);
  ChunkDecoder decoder;
  CHECK_THROWS_AS(store.read_tensor(decoder, {0, 0, 0}, fewer), std::invalid_argument);
}

}  // namespace
}  // namespace moelab::chunk_index_test
