// The codec that does nothing: the ceiling of every table of speeds.
#include <algorithm>

#include "hw/codec/codec.hpp"

namespace moelab {

namespace {

class CopyCodec final : public Codec {
 public:
  std::string name() const override { return "none"; }
  std::vector<std::byte> encode(std::span<const std::byte> plane) override {
    return {plane.begin(), plane.end()};
  }
  void decode(std::span<const std::byte> stored, std::span<std::byte> plane) override {
    if (stored.size() != plane.size()) {
      throw CodecError("none: " + std::to_string(stored.size()) + " bytes are stored, " +
                       std::to_string(plane.size()) + " expected");
    }
    std::copy(stored.begin(), stored.end(), plane.begin());
  }
};

}  // namespace

CodecRow copy_codec() {
  return {.name = "none", .help = "a copy: the ceiling", .make = [](int) -> std::unique_ptr<Codec> {
            return std::make_unique<CopyCodec>();
          }};
}

}  // namespace moelab
