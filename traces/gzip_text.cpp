#include "traces/gzip_text.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

namespace moelab {

std::string gzipped(const std::string& text) {
  constexpr int kGzipHeader = 15 + 16;  // zlib: 15 bits of window, a gzip header
  constexpr int kDefaultMemory = 8;
  z_stream zip{};
  if (deflateInit2(&zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipHeader, kDefaultMemory,
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

std::string packed_by_name(const std::filesystem::path& file, std::string text) {
  return file.extension() == ".gz" ? gzipped(text) : std::move(text);
}

}  // namespace moelab
