// LZ4 blocks, by its fast and its thorough (HC) encoder; one decoder. https://github.com/lz4/lz4
#include <lz4.h>
#include <lz4hc.h>

#include <climits>

#include "hw/codec/codec.hpp"

namespace moelab {

namespace {

/// Never null: version 1.9.4 reads through the address of an empty plane at HC level 12.
const char* chars(std::span<const std::byte> bytes) {
  return bytes.empty() ? "" : reinterpret_cast<const char*>(bytes.data());
}
char* writable(std::span<std::byte> bytes) {
  return reinterpret_cast<char*>(bytes.data());
}

class Lz4Codec final : public Codec {
 public:
  explicit Lz4Codec(int hc_level) : hc_level_(hc_level) {}

  std::string name() const override { return hc_level_ == 0 ? "lz4" : "lz4hc-" + std::to_string(hc_level_); }

  std::vector<std::byte> encode(std::span<const std::byte> plane) override {
    if (plane.size() > LZ4_MAX_INPUT_SIZE)
      throw CodecError(name() + ": a plane has at most 2113929216 bytes");
    const int size = static_cast<int>(plane.size());
    std::vector<std::byte> stored(static_cast<std::size_t>(LZ4_compressBound(size)));
    const int capacity = static_cast<int>(stored.size());
    const int written = hc_level_ == 0
                            ? LZ4_compress_default(chars(plane), writable(stored), size, capacity)
                            : LZ4_compress_HC(chars(plane), writable(stored), size, capacity, hc_level_);
    if (written <= 0) throw CodecError(name() + ": the library did not compress the plane");
    stored.resize(static_cast<std::size_t>(written));
    return stored;
  }

  void decode(std::span<const std::byte> stored, std::span<std::byte> plane) override {
    if (stored.size() > INT_MAX || plane.size() > INT_MAX) throw CodecError(name() + ": sizes beyond 2 GiB");
    const int written = LZ4_decompress_safe(chars(stored), writable(plane), static_cast<int>(stored.size()),
                                            static_cast<int>(plane.size()));
    if (written < 0) throw CodecError(name() + ": the stored bytes are not an LZ4 block of this plane");
    if (static_cast<std::size_t>(written) != plane.size()) {
      throw CodecError(name() + ": the block holds " + std::to_string(written) + " bytes, " +
                       std::to_string(plane.size()) + " expected");
    }
  }

 private:
  int hc_level_;  // 0: the fast encoder
};

}  // namespace

CodecRow lz4_codec() {
  return {.name = "lz4", .help = "LZ4, its fast encoder", .make = [](int) -> std::unique_ptr<Codec> {
            return std::make_unique<Lz4Codec>(0);
          }};
}
CodecRow lz4hc_codec() {
  return {.name = "lz4hc",
          .help = "LZ4, its thorough encoder",
          .first_level = 3,
          .last_level = 12,
          .usual_level = 9,
          .make = [](int level) -> std::unique_ptr<Codec> { return std::make_unique<Lz4Codec>(level); }};
}

}  // namespace moelab
