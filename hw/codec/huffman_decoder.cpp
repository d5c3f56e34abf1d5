#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>

#include "hw/codec/codec.hpp"
#include "hw/codec/huffman_stream.hpp"

namespace moelab {

namespace {

constexpr unsigned kMask = (1U << kHuffmanMaxLength) - 1;
constexpr unsigned kLookups = 5;  // that one load feeds: 8 bytes hold 57 bits or more from any bit on
static_assert(kLookups * kHuffmanMaxLength <= 57);

/// The stream's bits from `bit` on, at least 57 of them. Reads 8 bytes, which the guard after the code
/// allows.
std::uint64_t bits_at(const std::byte* code, std::uint64_t bit) {
  std::uint64_t word;
  std::memcpy(&word, code + bit / 8, sizeof word);
  return word >> bit % 8;
}

}  // namespace

HuffmanDecoder::HuffmanDecoder(const HuffmanStream& stream)
    : stream_(stream), single_(huffman_table(stream.lengths)), runs_(single_.size()) {
  static_assert(sizeof(Run) == 8);
  if (stream.symbols == 0) return;  // no codes
  for (unsigned index = 0; index < runs_.size(); ++index) {
    Run& run = runs_[index];
    while (run.count < std::size(run.symbols)) {
      const HuffmanEntry next = single_[index >> run.bits];
      if (run.bits + next.bits > kHuffmanMaxLength) break;  // not all of its bits are in the index
      run.symbols[run.count++] = next.symbol;
      run.bits = static_cast<std::uint8_t>(run.bits + next.bits);
    }
  }
}

HuffmanDecoder::Decoded HuffmanDecoder::segment(std::size_t s, std::span<std::byte> out) const {
  const std::byte* const code = stream_.code.data();
  // Loaded once: for all that the compiler knows, the bytes written below could be the vector's own.
  const Run* const runs = runs_.data();
  const std::uint64_t end = std::min<std::uint64_t>((s + 1) * stream_.segment_bytes * 8, stream_.code_bits);
  std::uint64_t bit = stream_.first_bit(s);
  std::byte* to = out.data();
  std::size_t room = out.size();
  const auto take_run = [&](std::uint64_t word) {
    const Run run = runs[word & kMask];
    std::memcpy(to, &run, sizeof run);  // six symbols or what there are, then what the next run overwrites
    to += run.count;
    room -= run.count;
    bit += run.bits;
    return run.bits;
  };
  // Whole runs, while all their codes are sure to start within the segment and 8 bytes a run can be written.
  while (bit + kLookups * kHuffmanMaxLength <= end && room >= kLookups * sizeof(Run)) {
    std::uint64_t word = bits_at(code, bit);
    for (unsigned i = 0; i < kLookups; ++i) word >>= take_run(word);
  }
  while (bit + kHuffmanMaxLength <= end && room >= sizeof(Run)) take_run(bits_at(code, bit));
  for (; bit < end; --room) {
    if (room == 0) throw CodecError("huffman: a block holds more symbols than its position says");
    const HuffmanEntry next = single_[bits_at(code, bit) & kMask];
    *to++ = static_cast<std::byte>(next.symbol);
    bit += next.bits;
  }
  return {out.size() - room, bit};
}

void HuffmanDecoder::block(std::size_t b, std::span<std::byte> out) const {
  const std::size_t last = std::min((b + 1) * kHuffmanBlockSegments, stream_.segments);
  for (std::size_t s = b * kHuffmanBlockSegments; s < last; ++s) {
    const Decoded decoded = segment(s, out);
    if (decoded.end_bit != stream_.first_bit(s + 1))
      throw CodecError("huffman: a segment does not end where the next starts");
    out = out.subspan(decoded.symbols);
  }
  if (!out.empty()) throw CodecError("huffman: a block holds fewer symbols than its position says");
}

void huffman_decode(std::span<const std::byte> stored, std::span<std::byte> plane) {
  const HuffmanStream stream = huffman_parse(stored);
  if (stream.symbols != plane.size()) {
    throw CodecError("huffman: the stream holds " + std::to_string(stream.symbols) + " bytes, " +
                     std::to_string(plane.size()) + " expected");
  }
  const HuffmanDecoder decoder(stream);
  for (std::size_t b = 0; b < stream.blocks; ++b) {
    const std::size_t first = stream.position(b);
    decoder.block(b, plane.subspan(first, stream.position(b + 1) - first));
  }
}

namespace {

class HuffmanCodec final : public Codec {
 public:
  explicit HuffmanCodec(int segment_bytes) : segment_bytes_(segment_bytes) {}
  std::string name() const override { return "huffman-" + std::to_string(segment_bytes_); }
  std::vector<std::byte> encode(std::span<const std::byte> plane) override {
    return huffman_encode(plane, static_cast<std::size_t>(segment_bytes_));
  }
  void decode(std::span<const std::byte> stored, std::span<std::byte> plane) override {
    huffman_decode(stored, plane);
  }

 private:
  int segment_bytes_;
};

}  // namespace

CodecRow huffman_codec() {
  return {.name = "huffman",
          .help = "Huffman codes that a GPU decodes, one thread a segment of LEVEL bytes",
          .first_level = 8,
          .last_level = 64,
          .usual_level = 16,
          .level_exists = [](int level) { return std::has_single_bit(static_cast<unsigned>(level)); },
          .make = [](int level) -> std::unique_ptr<Codec> { return std::make_unique<HuffmanCodec>(level); }};
}

}  // namespace moelab
