// Compressed traces. Expected bytes come from the zstd library used directly (one call, no streams) and from
// frames put together by hand, as RFC 8878 lays them out.
#include <zstd.h>
#include <filesystem>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/counts_trace.hpp"
#include "traces/routing_trace.hpp"
#include "traces/routing_trace_writer.hpp"
#include "traces/safetensors.hpp"

namespace moelab::zstd_test {
namespace {

using test::bytes_of;
using test::container;
using test::error_of;
using test::read_bytes;
using test::ScratchFolder;
using test::write_bytes;

std::string compressed(const std::string& bytes, int level = 3, bool checksum = true) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size = ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size());
  ZSTD_freeCCtx(context);
  REQUIRE(ZSTD_isError(size) == 0);
  out.resize(size);
  return out;
}

/// Of one frame that states its size.
std::string decompressed(const std::string& frame) {
  const unsigned long long stated = ZSTD_getFrameContentSize(frame.data(), frame.size());
  REQUIRE(stated < (1ULL << 32));
  std::string out(stated, '\0');
  const std::size_t size = ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size());
  REQUIRE(ZSTD_isError(size) == 0);
  REQUIRE(size == stated);
  return out;
}

/// A frame by hand: magic number, descriptor (no size, no checksum), window of 2^window_log bytes, then
/// blocks.
std::string hand_frame(const std::string& blocks, unsigned window_log = 20) {
  return bytes_of(std::vector<std::uint32_t>{0xfd2fb528}) + '\0' + static_cast<char>((window_log - 10) << 3) +
         blocks;
}
enum class Block : std::uint32_t { raw, repeated, compressed, reserved };
/// A block's header: last, kind, size. A raw block's bytes follow; or one byte that is repeated.
std::string block(Block kind, bool last, std::size_t size, const std::string& bytes) {
  const std::uint32_t header =
      static_cast<std::uint32_t>(size) << 3 | static_cast<std::uint32_t>(kind) << 1 | (last ? 1U : 0U);
  return bytes_of(std::vector<std::uint32_t>{header}).substr(0, 3) + bytes;
}

/// A file of one tensor of these bytes.
std::string one_tensor(const std::string& data, std::uint64_t stated) {
  std::string header = R"({"a":{"dtype":"U8","shape":[)" + std::to_string(stated) +
                       R"(],"data_offsets":[0,)" + std::to_string(stated) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return container(header, data);
}
std::string one_tensor(const std::string& data) {
  return one_tensor(data, data.size());
}

std::string random_text(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() % 16);
  return text;
}

std::string data_of(const SafetensorsFile& file) {
  const auto data = file.find("a")->data;
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace

TEST_CASE("zstd: a compressed file is read, whatever its name, level and frames") {
  const ScratchFolder scratch;
  std::mt19937_64 random(1);
  for (const std::size_t size : {0, 1, 1000, 200'000, 700'000}) {
    const std::string data = random_text(random, size), file = one_tensor(data);
    const std::size_t cut = random() % file.size();
    const std::string skippable = bytes_of(std::vector<std::uint32_t>{0x184d2a53, 5}) + "hello";
    const std::string forms[] = {
        compressed(file, 1),
        compressed(file, 19, false),
        compressed(file.substr(0, cut)) + compressed(file.substr(cut)),
        skippable + compressed(file) + skippable,
        compressed("") + compressed(file) + compressed(""),
    };
    for (const std::string& form : forms) {
      write_bytes(scratch / "f.safetensors", form);
      const SafetensorsFile opened = SafetensorsFile::open(scratch / "f.safetensors");
      REQUIRE(data_of(opened) == data);
      REQUIRE(opened.file_bytes() == file.size());
    }
  }
  // By hand: the whole file in raw blocks; and a plain file is still read, also when it is called .zst.
  const std::string file = one_tensor("abc");
  write_bytes(scratch / "f", hand_frame(block(Block::raw, false, 20, file.substr(0, 20)) +
                                        block(Block::raw, true, file.size() - 20, file.substr(20))));
  CHECK(data_of(SafetensorsFile::open(scratch / "f")) == "abc");
  write_bytes(scratch / "f.zst", file);
  CHECK(data_of(SafetensorsFile::open(scratch / "f.zst")) == "abc");
  CHECK(scratch.names().size() == 3);
}

namespace {

CountsTrace some_counts(std::mt19937_64& random) {
  CountsDescription about{.model = "m", .prompts = 50, .layers = 20, .experts = 300, .domains = {"a", "b"}};
  std::vector<std::uint64_t> counts(50 * 20 * 300);  // 2.4 MB
  for (std::uint64_t& count : counts) count = random() % 1000;
  return {about, std::move(counts), std::vector<std::uint16_t>(50, 1)};
}

/// Streams the same rows to each.
void stream_rows(std::mt19937_64& random, const std::vector<std::filesystem::path>& paths) {
  const TraceDescription about{.layers = 4, .experts = 64, .top_k = 2, .router_scores = RouterScores::logits};
  std::vector<std::unique_ptr<RoutingTraceWriter>> writers;
  for (const auto& path : paths) writers.push_back(std::make_unique<RoutingTraceWriter>(path, about));
  for (const auto& writer : writers) writer->begin_request();
  std::vector<std::uint16_t> ids(8);
  std::vector<float> router(256);
  for (int token = 0; token < 3000; ++token) {  // 3 MB
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::uint16_t>(random() % 32 * 2 + i % 2);
    for (float& score : router) score = static_cast<float>(random() % 1000);
    for (const auto& writer : writers) writer->add_token({.ids = ids, .router_scores = router});
  }
  for (const auto& writer : writers) writer->finish();
}

}  // namespace

TEST_CASE("zstd: what is written under .zst is what the plain file is, compressed") {
  const ScratchFolder scratch;
  std::mt19937_64 random(2);
  const auto check_same = [&](const std::string& plain, const std::string& zst) {
    const std::string frame = read_bytes(scratch / zst);
    CHECK(decompressed(frame) == read_bytes(scratch / plain));
    // RFC 8878 3.1.1.1.1: bit 2 of the descriptor says that there is a checksum.
    CHECK((frame[4] & 4) != 0);
  };
  const CountsTrace counts = some_counts(random);
  write_counts_trace(counts, scratch / "c");
  write_counts_trace(counts, scratch / "c.zst");
  check_same("c", "c.zst");
  CHECK(std::filesystem::file_size(scratch / "c.zst") < 50 * 20 * 300 * 2);
  stream_rows(random, {scratch / "r", scratch / "r.safetensors.zst"});
  check_same("r", "r.safetensors.zst");

  // Read and written again, also onto itself.
  write_counts_trace(read_counts_trace(scratch / "c.zst"), scratch / "c.zst");
  check_same("c", "c.zst");
  write_routing_trace(read_routing_trace(scratch / "r.safetensors.zst"), scratch / "again");
  write_routing_trace(read_routing_trace(scratch / "r"), scratch / "again.zst");
  check_same("again", "again.zst");
  CHECK(scratch.names().size() == 6);  // nothing temporary is left
}

TEST_CASE("zstd: a file cut short anywhere is refused") {
  const ScratchFolder scratch;
  std::mt19937_64 random(3);
  const std::string file = one_tensor(random_text(random, 2000));
  for (const std::string& whole : {compressed(file), compressed(file, 3, false)}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      write_bytes(scratch / "f", whole.substr(0, size));
      const std::string error = error_of([&] { SafetensorsFile::open(scratch / "f"); });
      const std::string due =
          size < 4 ? "byte " + std::to_string(size) + ": the file ends before"
                   : "byte " + std::to_string(size) + " of the compressed data: the file ends in the middle";
      CAPTURE(size, error);
      REQUIRE(error.find(due) != std::string::npos);
    }
  }
}

TEST_CASE("zstd: what follows the data is refused, at its byte") {
  const ScratchFolder scratch;
  const std::string whole = compressed(one_tensor("abcdef"));
  for (const std::string& tail : {std::string("x"), std::string(4, '\0'), std::string("trailing bytes")}) {
    write_bytes(scratch / "f", whole + tail);
    const std::string error = error_of([&] { SafetensorsFile::open(scratch / "f"); });
    CAPTURE(tail, error);
    CHECK(error.find("byte " + std::to_string(whole.size()) + " of the compressed data: what follows") !=
          std::string::npos);
  }
}

TEST_CASE("zstd: damage is found by the checksum or the format, and its place is near") {
  const ScratchFolder scratch;
  std::mt19937_64 random(4);
  const std::string file = one_tensor(random_text(random, 5000)), whole = compressed(file);
  int refused = 0;
  for (int round = 0; round < moelab::test::random_runs(3000); ++round) {
    std::string bytes = whole;
    for (std::uint64_t flips = 1 + random() % 2; flips > 0; --flips)
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    write_bytes(scratch / "f", bytes);
    const std::string error = error_of([&] {
      if (data_of(SafetensorsFile::open(scratch / "f")) != file.substr(file.size() - 5000))
        FAIL("damage went unseen in round " << round);
    });
    refused += error.empty() ? 0 : 1;
  }
  CHECK(refused > moelab::test::random_runs(2900));

  std::string bad_sum = whole;
  bad_sum.back() = static_cast<char>(bad_sum.back() ^ 1);
  write_bytes(scratch / "f", bad_sum);
  CHECK(error_of([&] { SafetensorsFile::open(scratch / "f"); }).find("checksum") != std::string::npos);
  // By hand: a raw block that is good, then one of a kind that does not exist.
  const std::string good = block(Block::raw, false, file.size(), file);
  write_bytes(scratch / "f", hand_frame(good + block(Block::reserved, true, 0, "")));
  const std::string error = error_of([&] { SafetensorsFile::open(scratch / "f"); });
  INFO(error);
  CHECK(
      error.find("byte 9 of the compressed data: this block, or the header of the next, is not sound zstd") !=
      std::string::npos);  // 6 bytes of the frame and 3 of the block
}

TEST_CASE("zstd: frames that want much memory are refused") {
  const ScratchFolder scratch;
  const std::string file = one_tensor("abc");
  for (const unsigned window_log : {27U, 28U, 41U}) {
    write_bytes(scratch / "f", hand_frame(block(Block::raw, true, file.size(), file), window_log));
    const std::string error = error_of([&] { SafetensorsFile::open(scratch / "f"); });
    CAPTURE(window_log, error);
    CHECK(error.empty() == (window_log == 27));
    if (window_log > 27) CHECK(error.find("too much memory") != std::string::npos);
  }
}

TEST_CASE("zstd: no more is decompressed than the header inside states", "[long]") {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& bytes) {
    write_bytes(scratch / "f", bytes);
    return error_of([&] { SafetensorsFile::open(scratch / "f"); });
  };
  // 1 TB of zeros in 32 MB: a block of 4 bytes repeats one 128 KiB times. Were they written, time would tell.
  std::string zeros;
  for (int i = 0; i < 8'000'000; ++i) zeros += block(Block::repeated, false, 1 << 17, std::string(1, '\0'));
  const std::string small = one_tensor("abc");
  CHECK(error(hand_frame(block(Block::raw, false, small.size(), small) + zeros))
            .find("there is more than the " + std::to_string(small.size()) + " bytes") != std::string::npos);
  // The same as its header says, but for which no disk has room.
  const std::uint64_t huge = std::uint64_t{1} << 60;
  const std::string stated = one_tensor("", huge);
  CHECK(error(hand_frame(block(Block::raw, false, stated.size(), stated) + zeros)).find("has no room") !=
        std::string::npos);
  CHECK(error(hand_frame(zeros.substr(0, 40) + block(Block::raw, true, 0, "")))
            .find("(decompressed): byte 8: the header does not start with '{'") != std::string::npos);
}

TEST_CASE("zstd: headers and sizes that do not fit what is inside are refused") {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& bytes) {
    write_bytes(scratch / "f", bytes);
    return error_of([&] { SafetensorsFile::open(scratch / "f"); });
  };
  // A header without an end, and one longer than any may be.
  const std::string endless = bytes_of(std::vector<std::uint64_t>{100'000'000}) + "{";
  CHECK(error(hand_frame(block(Block::raw, false, endless.size(), endless) +
                         block(Block::repeated, true, 1 << 17, " ")))
            .find("ends after 131081 bytes, before its header does") != std::string::npos);
  const std::string long_header = bytes_of(std::vector<std::uint64_t>{100'000'001}) + "{";
  CHECK(error(compressed(long_header)).find("(decompressed): byte 0: the header's length is 100000001") !=
        std::string::npos);
  // One byte more or less.
  CHECK(error(compressed(one_tensor("abcd", 3))).find("there is more than the") != std::string::npos);
  CHECK(error(compressed(one_tensor("abc", 4))).find("but its header states") != std::string::npos);
  CHECK(error(compressed(one_tensor("abc", 3))).empty());
  // Offsets whose sum with the header's length overflows.
  const std::string overflow = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})";
  CHECK(error(compressed(container(overflow, "a"))).find("more than 2^64 bytes") != std::string::npos);
}

TEST_CASE("zstd: errors in what is inside name the bytes of what is inside") {
  const ScratchFolder scratch;
  const std::string header =
      R"({"__metadata__":{"format":"moelab-counts","format_version":"1","model":"","top_k":"","provenance":"",)"
      R"("kind":"recorded"},"counts":{"dtype":"U64","shape":[1,1,2],"data_offsets":[0,16]}})";
  const std::string data = bytes_of(std::vector<std::uint64_t>{1, ~std::uint64_t{0}});
  write_bytes(scratch / "f.zst", compressed(container(header, data)));
  const std::string error = error_of([&] { read_counts_trace(scratch / "f.zst"); });
  CHECK(error.find("f.zst (decompressed): byte " + std::to_string(8 + header.size() + 8) + ": counts") !=
        std::string::npos);
}

TEST_CASE("zstd: without a folder for temporary files, a compressed file is refused and says why") {
  const ScratchFolder scratch;
  write_bytes(scratch / "f", compressed(one_tensor("abc")));
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", (scratch / "none").c_str(), 1);
  const std::string error = error_of([&] { SafetensorsFile::open(scratch / "f"); });
  if (before != nullptr)
    ::setenv("TMPDIR", kept.c_str(), 1);
  else
    ::unsetenv("TMPDIR");
  CHECK(error.find("no folder for temporary files") != std::string::npos);
}

}  // namespace moelab::zstd_test
