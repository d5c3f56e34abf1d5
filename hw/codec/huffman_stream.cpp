// Writing and parsing the format; huffman_decoder.cpp decodes it.
#include "hw/codec/huffman_stream.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "hw/codec/codec.hpp"

namespace moelab {

static_assert(std::endian::native == std::endian::little, "the format's numbers are copied as they stand");

namespace {

constexpr std::uint32_t kMagic = 0x31484c4d;  // "MLH1"
constexpr std::size_t kSymbolsAt = 8, kBitsAt = 16, kZerosAt = 24, kLengthsAt = 32;

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put_number(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

std::uint8_t nibble_at(std::span<const std::byte> bytes, std::size_t i) {
  return static_cast<std::uint8_t>(std::to_integer<unsigned>(bytes[i / 2]) >> (i % 2 * 4) & 15);
}

void put_nibble(std::span<std::byte> zeros, std::size_t i, unsigned value) {
  zeros[i / 2] |= static_cast<std::byte>(value << (i % 2 * 4));
}

[[noreturn]] void refuse(const char* what) {
  throw CodecError(std::string("huffman: ") + what);
}

std::uint64_t divided_up(std::uint64_t amount, std::uint64_t unit) {
  return amount / unit + (amount % unit != 0);
}

/// Where the parts of a stream lie, from what its header says.
struct Layout {
  Layout(std::uint64_t code_bits, std::uint64_t segment_bytes)
      : segments(divided_up(code_bits, segment_bytes * 8)),
        blocks(divided_up(segments, kHuffmanBlockSegments)),
        positions_at(kHuffmanHeaderBytes + segments * segment_bytes + kHuffmanGuardBytes),
        gaps_at(positions_at + blocks * sizeof(std::uint32_t)),
        size(gaps_at + divided_up(segments, 2)) {}
  std::uint64_t segments, blocks, positions_at, gaps_at, size;
};

/// Writes codes from the low bits up. It may write up to 7 bytes of zeros past the last code, into the guard.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  void put(std::uint64_t code, unsigned bits) {
    pending_ |= code << count_;
    count_ += bits;
    if (count_ < 48) return;  // so that another code fits always
    flush();
  }
  void flush() {
    std::memcpy(to_, &pending_, sizeof pending_);
    to_ += count_ / 8;
    pending_ >>= count_ / 8 * 8;
    count_ %= 8;
  }

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  unsigned count_ = 0;
};

void write_code(std::span<const std::byte> plane, const HuffmanLengths& lengths, std::uint64_t segment_bits,
                const Layout& layout, std::span<std::byte> stored) {
  const std::array<std::uint16_t, 256> codes = canonical_codes(lengths);
  const std::span<std::byte> gaps = stored.subspan(layout.gaps_at);
  BitWriter writer(stored.data() + kHuffmanHeaderBytes);
  std::uint64_t bit = 0, segment_end = 0;
  std::size_t segment = 0;
  const auto start_segment = [&](std::size_t symbol) {
    if (segment % kHuffmanBlockSegments == 0) {
      put_number(stored, layout.positions_at + segment / kHuffmanBlockSegments * sizeof(std::uint32_t),
                 static_cast<std::uint32_t>(symbol));
    }
    put_nibble(gaps, segment++, static_cast<unsigned>(bit - segment_end));
    segment_end += segment_bits;
  };
  for (std::size_t i = 0; i < plane.size(); ++i) {
    if (bit >= segment_end) start_segment(i);
    const auto b = std::to_integer<std::size_t>(plane[i]);
    writer.put(codes[b], lengths[b]);
    bit += lengths[b];
  }
  writer.flush();
  if (segment < layout.segments) start_segment(plane.size());  // the last code alone reaches into it
}

HuffmanLengths lengths_at(std::span<const std::byte> nibbles) {
  HuffmanLengths lengths;
  for (std::size_t b = 0; b < lengths.size(); ++b) lengths[b] = nibble_at(nibbles, b);
  return lengths;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

void check_parts(const HuffmanStream& stream) {
  if (!is_complete(stream.lengths)) refuse("the code lengths are not those of a prefix code");
  const bool codes = std::ranges::any_of(stream.lengths, [](auto length) { return length > 0; });
  if (codes != (stream.symbols > 0)) refuse("symbols without codes, or codes without symbols");
  for (std::size_t b = 0; b < stream.blocks; ++b) {
    if (stream.position(b) > stream.position(b + 1) || (b == 0 && stream.position(b) != 0)) {
      refuse("the blocks' positions do not rise from 0 to the number of symbols");
    }
  }
  for (std::size_t s = 0; s < stream.segments; ++s) {
    if (nibble_at(stream.gaps, s) >= kHuffmanMaxLength) refuse("a gap is as long as a code");
  }
  const std::size_t used = stream.code_bits / 8, rest = stream.code_bits % 8;
  if (rest > 0 && std::to_integer<unsigned>(stream.code[used]) >> rest != 0)
    refuse("bits after the last code");
  if (!all_zero(stream.code.subspan(used + (rest > 0)))) refuse("bits after the last code");
  if (stream.segments % 2 == 1 && nibble_at(stream.gaps, stream.segments) != 0)
    refuse("bits after the last gap");
}

}  // namespace

std::uint64_t HuffmanStream::position(std::size_t b) const {
  return b == blocks ? symbols : number_at<std::uint32_t>(positions, b * sizeof(std::uint32_t));
}

std::uint64_t HuffmanStream::first_bit(std::size_t s) const {
  return s == segments ? code_bits : std::uint64_t{s} * segment_bytes * 8 + nibble_at(gaps, s);
}

std::vector<std::byte> huffman_encode(std::span<const std::byte> plane, std::size_t segment_bytes) {
  if (plane.size() > UINT32_MAX) refuse("a plane has less than 4 GiB");
  const ByteCounts counts = count_bytes(plane);
  const HuffmanLengths lengths = huffman_lengths(counts);
  std::uint64_t code_bits = 0;
  for (std::size_t b = 0; b < counts.size(); ++b) code_bits += counts[b] * lengths[b];

  const Layout layout(code_bits, segment_bytes);
  std::vector<std::byte> stored(layout.size);
  put_number(stored, 0, kMagic);
  stored[4] = static_cast<std::byte>(std::countr_zero(segment_bytes));
  put_number(stored, kSymbolsAt, std::uint64_t{plane.size()});
  put_number(stored, kBitsAt, code_bits);
  for (std::size_t b = 0; b < lengths.size(); ++b)
    put_nibble(std::span(stored).subspan(kLengthsAt), b, lengths[b]);
  write_code(plane, lengths, segment_bytes * 8, layout, stored);
  return stored;
}

HuffmanStream huffman_parse(std::span<const std::byte> stored) {
  if (stored.size() < kHuffmanHeaderBytes) refuse("shorter than its header");
  if (number_at<std::uint32_t>(stored, 0) != kMagic) refuse("not a stream of this format");
  const unsigned segment_log2 = std::to_integer<unsigned>(stored[4]);
  if (segment_log2 < 3 || segment_log2 > 6) refuse("segments have 8 to 64 bytes");
  if (!all_zero(stored.subspan(5, 3)) || !all_zero(stored.subspan(kZerosAt, 8)))
    refuse("unknown header fields");
  const auto symbols = number_at<std::uint64_t>(stored, kSymbolsAt),
             code_bits = number_at<std::uint64_t>(stored, kBitsAt);
  if (symbols > UINT32_MAX || code_bits < symbols || code_bits > symbols * kHuffmanMaxLength) {
    refuse("the numbers of symbols and code bits do not fit each other");
  }
  const std::size_t segment_bytes = std::size_t{1} << segment_log2;
  const Layout layout(code_bits, segment_bytes);
  if (stored.size() != layout.size) refuse("truncated, or longer than its header says");
  HuffmanStream stream = {lengths_at(stored.subspan(kLengthsAt)),
                          symbols,
                          code_bits,
                          segment_bytes,
                          layout.segments,
                          layout.blocks,
                          stored.subspan(kHuffmanHeaderBytes, layout.positions_at - kHuffmanHeaderBytes),
                          stored.subspan(layout.positions_at, layout.gaps_at - layout.positions_at),
                          stored.subspan(layout.gaps_at)};
  check_parts(stream);
  return stream;
}

}  // namespace moelab
