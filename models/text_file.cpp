#include "models/text_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "models/input_error.hpp"

namespace moelab {

void check_regular_file(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) throw InputError(path, "is a folder; expected a file");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw InputError(path, "is a pipe or a device; expected a file");
}

std::string read_text_file(const std::string& path) {
  check_regular_file(path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const std::string reason = errno != 0 ? ": " + std::generic_category().message(errno) : "";
    throw InputError(path, "cannot be opened" + reason);
  }
  // Piece by piece: the file may grow meanwhile.
  constexpr std::size_t piece = std::size_t{1} << 16;
  std::string text;
  while (file) {
    const std::size_t before = text.size();
    text.resize(before + piece);
    file.read(text.data() + before, static_cast<std::streamsize>(piece));
    text.resize(before + static_cast<std::size_t>(file.gcount()));
    if (text.size() > largest_text_file) {
      throw InputError(path, "is larger than 64 MiB; expected a configuration");
    }
  }
  if (file.bad()) throw InputError(path, "cannot be read to its end");
  return text;
}

}  // namespace moelab
