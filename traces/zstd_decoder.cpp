#include "traces/zstd_decoder.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "models/input_error.hpp"
#include "traces/spilled_bytes.hpp"

namespace moelab {
namespace {

constexpr std::size_t kFrameStart = 5;  // bytes of a frame that say how long its header is

}  // namespace

bool starts_zstd(std::span<const std::byte> bytes) {
  std::uint32_t magic = 0;
  if (bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == ZSTD_MAGICNUMBER || (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

void ZstdDecoder::Release::operator()(ZSTD_DCtx_s* stream) const {
  ZSTD_freeDStream(stream);
}

ZstdDecoder::ZstdDecoder(std::string file, const MappedFile& compressed)
    : file_(std::move(file)),
      compressed_(compressed.bytes()),
      stream_(ZSTD_createDStream()),
      buffer_(ZSTD_DStreamOutSize()),
      wanted_(kFrameStart) {
  if (stream_ == nullptr) throw std::bad_alloc();
}

void ZstdDecoder::fail(const std::string& what) const {
  throw InputError(file_, "byte " + std::to_string(at_) + " of the compressed data: " + what);
}

// Handed over block by block, each with the header of the next: so near is an error to at_.
std::span<const std::byte> ZstdDecoder::next() {
  ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
  while (out.pos == 0) {
    const auto left = compressed_.subspan(at_);
    if (left.empty() && at_ == frame_) return {};
    ZSTD_inBuffer in{left.data(), std::min(wanted_, left.size()), 0};
    const std::size_t result = ZSTD_decompressStream(stream_.get(), &out, &in);
    if (ZSTD_isError(result) != 0)
      fail(at_ == frame_ && at_ > 0
               ? "what follows the data is no zstd frame"
               : std::string("this block, or the header of the next, is not sound zstd: ") +
                     ZSTD_getErrorName(result));
    at_ += in.pos;
    if (result == 0) frame_ = at_;
    wanted_ = result == 0 ? kFrameStart : result;
    if (result != 0 && in.size == 0 && out.pos == 0)
      fail("the file ends in the middle of the zstd frame that starts at byte " + std::to_string(frame_));
  }
  constexpr std::uint64_t kTogether = std::uint64_t{16} << 20;
  for (; at_ >= released_ + kTogether; released_ += kTogether)
    release_pages(compressed_.subspan(released_, kTogether));
  return std::span<const std::byte>(buffer_).first(out.pos);
}

}  // namespace moelab
