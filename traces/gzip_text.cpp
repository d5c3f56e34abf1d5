#include "traces/gzip_text.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

namespace moelab {
namespace {

constexpr int kWindowBits = 15;
constexpr int kGzipHeader = 16;  // which zlib wants to have added to them

std::string deflated(const std::string& text, int window_bits) {
  constexpr int kDefaultMemory = 8;
  z_stream zip{};
  if (deflateInit2(&zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits, kDefaultMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib has no memory to pack a file");
  std::string out;
  std::array<Bytef, 1 << 16> buffer{};
  std::size_t taken = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (zip.avail_in == 0) {  // zlib counts in 32 bits
      const std::size_t some = std::min<std::size_t>(text.size() - taken, std::numeric_limits<uInt>::max());
      zip.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + taken));  // is only read
      zip.avail_in = static_cast<uInt>(some);
      taken += some;
    }
    zip.next_out = buffer.data();
    zip.avail_out = static_cast<uInt>(buffer.size());
    status = deflate(&zip, taken == text.size() ? Z_FINISH : Z_NO_FLUSH);
    out.append(reinterpret_cast<const char*>(buffer.data()), buffer.size() - zip.avail_out);
  }
  deflateEnd(&zip);
  return out;
}

}  // namespace

std::string gzipped(const std::string& text) {
  return deflated(text, kWindowBits + kGzipHeader);
}

std::string zlib_packed(const std::string& text) {
  return deflated(text, kWindowBits);
}

std::string packed_by_name(const std::filesystem::path& file, std::string text) {
  return file.extension() == ".gz" ? gzipped(text) : std::move(text);
}

}  // namespace moelab
