#include "traces/import/zip_archive.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kEndSize = 22, kEnd64LocatorSize = 20, kEnd64Size = 56, kLocalSize = 30,
                        kEntrySize = 46;
constexpr std::uint64_t kLongestComment = 65535;
constexpr std::uint64_t kLargestDirectory = std::uint64_t{256} << 20;  // bytes
constexpr std::uint32_t kEndMark = 0x06054b50, kEnd64LocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;

template <typename T>
T at(std::string_view bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string bytes_at(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t size) {
  InputStream stream(path, FilePart{offset, size, false});
  std::string bytes(size, '\0');
  stream.read_exactly(std::as_writable_bytes(std::span(bytes)), "the archive's directory");
  return bytes;
}

// Replaces the 32-bit sizes and offset that are all ones by those of the 64-bit extra field.
bool widen(std::string_view extra, std::uint64_t& size, std::uint64_t& packed, std::uint64_t& offset) {
  while (extra.size() >= 4) {
    const std::uint64_t length = at<std::uint16_t>(extra, 2);
    if (length > extra.size() - 4) return false;
    std::string_view field = extra.substr(4, length);
    if (at<std::uint16_t>(extra, 0) == 1) {
      for (std::uint64_t* value : {&size, &packed, &offset}) {
        if (*value != 0xffffffff) continue;
        if (field.size() < 8) return false;
        *value = at<std::uint64_t>(field, 0);
        field.remove_prefix(8);
      }
    }
    extra.remove_prefix(4 + length);
  }
  return true;
}

}  // namespace

void ZipArchive::fail(const std::string& what) const {
  throw InputError(path_.string(), what);
}

ZipArchive::ZipArchive(std::filesystem::path path) : path_(std::move(path)) {
  const std::uint64_t file = input_file_size(path_);
  const std::uint64_t tail_size = std::min(file, kEndSize + kLongestComment + kEnd64LocatorSize);
  const std::string tail = bytes_at(path_, file - tail_size, tail_size);
  const std::string mark(reinterpret_cast<const char*>(&kEndMark), 4);
  const std::size_t end = tail.rfind(mark);
  if (end == std::string::npos || tail.size() - end < kEndSize)
    fail("is not a zip archive, or is cut short: its directory is not at its end");
  std::uint64_t count = at<std::uint16_t>(tail, end + 10);
  std::uint64_t size = at<std::uint32_t>(tail, end + 12), offset = at<std::uint32_t>(tail, end + 16);
  if (at<std::uint32_t>(tail, end + 4) != 0 && at<std::uint32_t>(tail, end + 4) != 0xffffffff)
    fail("is one of several disks of a zip archive");
  if (end >= kEnd64LocatorSize && at<std::uint32_t>(tail, end - kEnd64LocatorSize) == kEnd64LocatorMark) {
    const auto where = at<std::uint64_t>(tail, end - kEnd64LocatorSize + 8);
    if (where > file || file - where < kEnd64Size)
      fail("has a damaged directory: it begins beyond the file's end");
    const std::string wide = bytes_at(path_, where, kEnd64Size);
    if (at<std::uint32_t>(wide, 0) != kEnd64Mark)
      fail("has a damaged directory at byte " + std::to_string(where));
    count = at<std::uint64_t>(wide, 32);
    size = at<std::uint64_t>(wide, 40);
    offset = at<std::uint64_t>(wide, 48);
  }
  if (offset > file || size > file - offset || size > kLargestDirectory || count > size / kEntrySize)
    fail("has a damaged directory: " + std::to_string(count) + " members in " + std::to_string(size) +
         " bytes from byte " + std::to_string(offset));
  read_directory(offset, size, count);
}

void ZipArchive::read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count) {
  const std::string bytes = bytes_at(path_, offset, size);
  const std::uint64_t file = input_file_size(path_);
  std::string_view rest = bytes;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string place = " (member " + std::to_string(i) + " of its directory)";
    if (rest.size() < kEntrySize || at<std::uint32_t>(rest, 0) != kEntryMark)
      fail("has a damaged directory" + place);
    const std::uint64_t name_size = at<std::uint16_t>(rest, 28), extra_size = at<std::uint16_t>(rest, 30),
                        comment_size = at<std::uint16_t>(rest, 32);
    if (rest.size() - kEntrySize < name_size + extra_size + comment_size)
      fail("has a damaged directory" + place);
    ZipMember member;
    member.name = rest.substr(kEntrySize, name_size);
    const auto crc = at<std::uint32_t>(rest, 16);
    std::uint64_t packed = at<std::uint32_t>(rest, 20), local = at<std::uint32_t>(rest, 42);
    member.size = at<std::uint32_t>(rest, 24);
    const auto method = at<std::uint16_t>(rest, 10);
    if (!widen(rest.substr(kEntrySize + name_size, extra_size), member.size, packed, local))
      fail("has a damaged directory" + place);
    if ((at<std::uint16_t>(rest, 8) & 1U) != 0) fail("holds " + shown(member.name) + " encrypted");
    if (method != 0 && method != 8)
      fail("holds " + shown(member.name) + " packed in a way (" + std::to_string(method) +
           ") other than stored or deflated");
    if (method == 0 && packed != member.size) fail("has a damaged directory" + place);
    if (!names.insert(member.name).second) fail("holds " + shown(member.name) + " twice");
    if (local > file || file - local < kLocalSize) fail("has a damaged directory" + place);
    const std::string head = bytes_at(path_, local, kLocalSize);
    if (at<std::uint32_t>(head, 0) != kLocalMark) fail("has a damaged directory" + place);
    const std::uint64_t begin =
        local + kLocalSize + at<std::uint16_t>(head, 26) + at<std::uint16_t>(head, 28);
    if (begin > file || packed > file - begin) fail("is cut short within " + shown(member.name));
    member.part = {begin, packed, method == 8, crc};
    members_.push_back(std::move(member));
    rest.remove_prefix(kEntrySize + name_size + extra_size + comment_size);
  }
}

const ZipMember* ZipArchive::find(const std::string& name) const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const ZipMember& member) { return member.name == name; });
  return found != members_.end() ? &*found : nullptr;
}

const ZipMember& ZipArchive::member(const std::string& name) const {
  if (const ZipMember* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const ZipMember& member : members_) names.push_back(member.name);
  fail("holds no " + shown(name) + suggestion(name, names));
}

InputStream ZipArchive::open(const ZipMember& member, Progress progress) const {
  return InputStream(path_, member.part, std::move(progress));
}

std::string ZipArchive::read(const ZipMember& member, std::uint64_t most) const {
  // A deflated byte stands for at most 1032: a larger claim is false, and no reason to take memory.
  if (member.size > most || member.size / 1040 > member.part.size + 1)
    fail("holds " + std::to_string(member.size) + " bytes of " + shown(member.name) + "; at most " +
         std::to_string(most) + " are read");
  std::string bytes(member.size, '\0');
  InputStream stream = open(member);
  stream.read_exactly(std::as_writable_bytes(std::span(bytes)), shown(member.name));
  std::byte extra{};
  if (stream.read(std::span(&extra, 1)) != 0) fail("holds more of " + shown(member.name) + " than it says");
  return bytes;
}

}  // namespace moelab
