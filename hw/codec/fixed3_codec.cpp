// fixed3 as a row of the codec table.
#include "hw/codec/codec.hpp"
#include "hw/codec/fixed3.hpp"

namespace moelab {

namespace {

class Fixed3Codec final : public Codec {
 public:
  std::string name() const override { return "fixed3"; }
  std::vector<std::byte> encode(std::span<const std::byte> plane) override {
    return fixed3_encode({reinterpret_cast<const std::uint8_t*>(plane.data()), plane.size()});
  }
  void decode(std::span<const std::byte> stored, std::span<std::byte> plane) override {
    fixed3_decode(stored, {reinterpret_cast<std::uint8_t*>(plane.data()), plane.size()});
  }
};

}  // namespace

CodecRow fixed3_codec() {
  return {.name = "fixed3",
          .help = "3 bits for the seven commonest bytes, a list of the others",
          .make = [](int) -> std::unique_ptr<Codec> { return std::make_unique<Fixed3Codec>(); }};
}

}  // namespace moelab
