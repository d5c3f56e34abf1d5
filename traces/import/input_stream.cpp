#include "traces/import/input_stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr int kGzipWindow = 15 + 16;  // zlib: 15 bits of window, a gzip header
constexpr int kRawWindow = -15;       // zlib: no header

constexpr std::uint64_t kMostUnpacked = 1032;  // bytes that a deflated byte stands for at most
constexpr std::uint64_t kHeldBack = 64;  // packed bytes that zlib may have taken without handing out theirs

enum class Packing { none, gzip, deflate };

}  // namespace

struct InputStream::Impl {
  Impl(const std::filesystem::path& path, Progress told);
  Impl(std::string text, std::vector<std::byte> bytes)
      : name(std::move(text)), buffer(std::move(bytes)), filled(buffer.size()) {}
  ~Impl() {
    if (packing != Packing::none) inflateEnd(&unpacker);
    if (descriptor >= 0) ::close(descriptor);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start(Packing how) {
    const int window = how == Packing::gzip ? kGzipWindow : kRawWindow;
    if (how != Packing::none && inflateInit2(&unpacker, window) != Z_OK) throw std::bad_alloc();
    packing = how;
  }
  [[noreturn]] void fail(const std::string& what) const { throw InputError(name, what); }
  [[noreturn]] void fail_short(std::uint64_t last, std::uint64_t missing, const std::string& what) const {
    fail("ends at byte " + std::to_string(last) + ", within " + what + ": " + std::to_string(missing) +
         " more bytes expected");
  }
  bool refill();
  std::size_t copy(std::span<std::byte> out);
  std::size_t unpack(std::span<std::byte> out);
  void end_of_member();
  void check_crc(std::span<const std::byte> bytes, bool at_end);

  std::string name;
  Progress progress;
  int descriptor = -1;
  std::uint64_t file_size = 0;
  std::uint64_t next = 0;  // file offset of what comes after the buffer
  std::uint64_t end = 0;   // one past the part's last byte
  std::uint64_t handed_out = 0;
  std::vector<std::byte> buffer;
  std::size_t begin = 0, filled = 0;  // bytes of the buffer not taken yet
  Packing packing = Packing::none;
  bool finished = false;  // the packed data has ended
  z_stream unpacker{};
  std::optional<std::uint32_t> due_crc;
  uLong crc = 0;
};

InputStream::Impl::Impl(const std::filesystem::path& path, Progress told)
    : name(path.string()), progress(std::move(told)) {
  descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(std::exchange(descriptor, -1));
    fail("is not a regular file");
  }
  file_size = static_cast<std::uint64_t>(status.st_size);
  end = file_size;
}

bool InputStream::Impl::refill() {
  const std::size_t most = static_cast<std::size_t>(std::min<std::uint64_t>(kBuffer, end - next));
  if (buffer.empty()) buffer.resize(most);  // no more than is there: archives have thousands of small parts
  begin = filled = 0;
  while (filled == 0 && most != 0) {
    const ssize_t got = ::pread(descriptor, buffer.data(), most, static_cast<off_t>(next));
    if (got < 0 && errno != EINTR) fail(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) fail("ends at byte " + std::to_string(next) + ", earlier than when it was opened");
    if (got > 0) filled = static_cast<std::size_t>(got);
  }
  next += filled;
  if (progress) progress(next, file_size);
  return filled != 0;
}

std::size_t InputStream::Impl::copy(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size() && (begin < filled || refill())) {
    const std::size_t count = std::min(out.size() - done, filled - begin);
    std::memcpy(out.data() + done, buffer.data() + begin, count);
    begin += count;
    done += count;
  }
  return done;
}

// A gzip file may hold several members one after the other; they read as one.
void InputStream::Impl::end_of_member() {
  if (packing == Packing::gzip && (begin < filled || refill())) {
    inflateReset(&unpacker);
  } else {
    finished = true;
    if (begin < filled || next < end) fail("has data after its packed data ends");
  }
}

std::size_t InputStream::Impl::unpack(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size() && !finished) {
    if (begin == filled && !refill())
      fail("is cut short: its packed data ends at byte " + std::to_string(next) + " of the file");
    const std::size_t room = std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max());
    unpacker.next_in = reinterpret_cast<Bytef*>(buffer.data() + begin);
    unpacker.avail_in = static_cast<uInt>(filled - begin);
    unpacker.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    unpacker.avail_out = static_cast<uInt>(room);
    const int status = inflate(&unpacker, Z_NO_FLUSH);
    begin = filled - unpacker.avail_in;
    done += room - unpacker.avail_out;
    if (status == Z_STREAM_END) {
      end_of_member();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail("has damaged packed data near byte " + std::to_string(next - (filled - begin)) + " of the file" +
           (unpacker.msg != nullptr ? std::string(": ") + unpacker.msg : std::string()));
    }
  }
  return done;
}

void InputStream::Impl::check_crc(std::span<const std::byte> bytes, bool at_end) {
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (at_end && crc != *due_crc)
    fail("has damaged data before byte " + std::to_string(end) + ": its checksum differs");
}

InputStream::InputStream(const std::filesystem::path& path, Progress progress)
    : impl_(std::make_unique<Impl>(path, std::move(progress))) {
  Impl& in = *impl_;
  const bool gzip =
      in.refill() && in.filled >= 2 && in.buffer[0] == std::byte{0x1f} && in.buffer[1] == std::byte{0x8b};
  in.start(gzip ? Packing::gzip : Packing::none);
}

InputStream::InputStream(const std::filesystem::path& path, const FilePart& part, Progress progress)
    : impl_(std::make_unique<Impl>(path, std::move(progress))) {
  Impl& in = *impl_;
  if (part.offset > in.file_size || part.size > in.file_size - part.offset)
    in.fail("is cut short: a part of it should end at byte " + std::to_string(part.offset + part.size));
  in.next = part.offset;
  in.end = part.offset + part.size;
  in.due_crc = part.crc;
  in.start(part.deflated ? Packing::deflate : Packing::none);
}

InputStream::InputStream(std::string name, std::vector<std::byte> bytes)
    : impl_(std::make_unique<Impl>(std::move(name), std::move(bytes))) {}

InputStream::~InputStream() = default;
InputStream::InputStream(InputStream&&) noexcept = default;

std::size_t InputStream::read(std::span<std::byte> out) {
  const std::size_t done = impl_->packing == Packing::none ? impl_->copy(out) : impl_->unpack(out);
  impl_->handed_out += done;
  if (impl_->due_crc) impl_->check_crc(out.first(done), done < out.size());
  return done;
}

void InputStream::read_exactly(std::span<std::byte> out, const std::string& what) {
  const std::size_t got = read(out);
  if (got != out.size()) impl_->fail_short(impl_->handed_out, out.size() - got, what);
}

void InputStream::expect(std::uint64_t bytes, const std::string& what) const {
  const Impl& in = *impl_;
  const std::uint64_t stored = in.filled - in.begin + (in.end - in.next);
  if (in.packing == Packing::none) {
    if (bytes > stored) in.fail_short(in.handed_out + stored, bytes - stored, what);
  } else if (bytes / kMostUnpacked > stored + kHeldBack) {
    in.fail(std::to_string(bytes) + " bytes of " + what + " from byte " + std::to_string(in.handed_out) +
            " are more than its packed data can stand for");
  }
}

std::uint64_t InputStream::offset() const {
  return impl_->handed_out;
}
const std::string& InputStream::name() const {
  return impl_->name;
}
void InputStream::fail(const std::string& what) const {
  throw InputError(impl_->name, "byte " + std::to_string(impl_->handed_out) + ": " + what);
}

std::uint64_t input_file_size(const std::filesystem::path& path) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw InputError(path.string(), "cannot be opened: " + error.message());
  return size;
}

}  // namespace moelab
