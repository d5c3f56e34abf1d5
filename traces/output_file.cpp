#include "traces/output_file.hpp"

#include <zstd.h>

#include <new>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr int kLevel = 3;  // beyond, time grows faster than files shrink

}  // namespace

void OutputFile::Release::operator()(ZSTD_CCtx_s* stream) const {
  ZSTD_freeCCtx(stream);
}

OutputFile::OutputFile(const std::filesystem::path& target, std::uint64_t bytes)
    : name_(target.string()), file_(target) {
  if (target.extension() != ".zst") return;
  stream_.reset(ZSTD_createCCtx());
  if (stream_ == nullptr) throw std::bad_alloc();
  checked(ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_compressionLevel, kLevel));
  checked(ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_checksumFlag, 1));
  checked(ZSTD_CCtx_setPledgedSrcSize(stream_.get(), bytes));
  buffer_.resize(ZSTD_CStreamOutSize());
}

std::size_t OutputFile::checked(std::size_t result) const {
  if (ZSTD_isError(result) != 0)
    throw InputError(name_, std::string("cannot be compressed: ") + ZSTD_getErrorName(result));
  return result;
}

void OutputFile::compress(std::span<const std::byte> bytes, bool last) {
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  for (bool more = true; more;) {
    ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
    const std::size_t left =
        checked(ZSTD_compressStream2(stream_.get(), &out, &in, last ? ZSTD_e_end : ZSTD_e_continue));
    file_.write(std::span<const std::byte>(buffer_).first(out.pos));
    more = last ? left != 0 : in.pos < in.size;
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (stream_ == nullptr)
    file_.write(bytes);
  else
    compress(bytes, false);
}

void OutputFile::commit() {
  if (stream_ != nullptr) compress({}, true);
  file_.commit();
}

}  // namespace moelab
