// Zstandard frames, at its levels or with its Huffman stage alone. https://github.com/facebook/zstd
// Exponents are order-0 data: matches only cost. The lowest level finds none, and, told to compress literals
// nevertheless (the lowest levels store them raw), it leaves a frame of Huffman-coded literals, smaller and
// faster than level 1. That parameter is an experimental one of the encoder; the frame is an ordinary one.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <new>

#include "hw/codec/codec.hpp"

namespace moelab {

namespace {

class ZstdCodec final : public Codec {
 public:
  /// Level 0: literals only.
  explicit ZstdCodec(int level) : level_(level), encoder_(ZSTD_createCCtx()), decoder_(ZSTD_createDCtx()) {
    if (!encoder_ || !decoder_) throw std::bad_alloc();
    checked(ZSTD_CCtx_setParameter(encoder_.get(), ZSTD_c_compressionLevel,
                                   level == 0 ? ZSTD_minCLevel() : level));
    if (level == 0) {
      checked(ZSTD_CCtx_setParameter(encoder_.get(), ZSTD_c_literalCompressionMode, ZSTD_ps_enable));
    }
  }

  std::string name() const override {
    return level_ == 0 ? "zstd-literals" : "zstd-" + std::to_string(level_);
  }

  std::vector<std::byte> encode(std::span<const std::byte> plane) override {
    std::vector<std::byte> stored(checked(ZSTD_compressBound(plane.size())));
    stored.resize(
        checked(ZSTD_compress2(encoder_.get(), stored.data(), stored.size(), plane.data(), plane.size())));
    return stored;
  }

  void decode(std::span<const std::byte> stored, std::span<std::byte> plane) override {
    const std::size_t written = checked(
        ZSTD_decompressDCtx(decoder_.get(), plane.data(), plane.size(), stored.data(), stored.size()));
    if (written != plane.size()) {
      throw CodecError(name() + ": the frame holds " + std::to_string(written) + " bytes, " +
                       std::to_string(plane.size()) + " expected");
    }
  }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  std::size_t checked(std::size_t result) const {
    if (ZSTD_isError(result)) throw CodecError(name() + ": " + ZSTD_getErrorName(result));
    return result;
  }

  int level_;
  std::unique_ptr<ZSTD_CCtx, Free> encoder_;
  std::unique_ptr<ZSTD_DCtx, Free> decoder_;
};

}  // namespace

CodecRow zstd_codec() {
  return {.name = "zstd",
          .help = "Zstandard",
          .first_level = 1,
          .last_level = 19,
          .usual_level = 1,
          .make = [](int level) -> std::unique_ptr<Codec> { return std::make_unique<ZstdCodec>(level); }};
}
CodecRow zstd_literals_codec() {
  return {.name = "zstd-literals",
          .help = "Zstandard's Huffman stage alone",
          .make = [](int) -> std::unique_ptr<Codec> { return std::make_unique<ZstdCodec>(0); }};
}

}  // namespace moelab
