#include "hw/io/pread_reader.hpp"

#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace moelab {

void PreadReader::submit(const ReadRequest& request) {
  require_sound(request);
  const std::lock_guard lock(mutex_);
  if (request_) throw std::logic_error("a read is under way already");
  request_ = request;
}

ReadCompletion PreadReader::wait() {
  ReadRequest request;
  {
    const std::lock_guard lock(mutex_);
    if (!request_) throw std::logic_error("no read is under way");
    request = *request_;
  }
  struct Over {
    PreadReader& reader;
    ~Over() {
      const std::lock_guard lock(reader.mutex_);
      reader.request_.reset();
    }
  } over{*this};
  return {request.tag, read(request)};
}

std::size_t PreadReader::read(const ReadRequest& request) const {
  const std::size_t due = file_.within(request.offset, request.destination.size());
  std::size_t done = 0;
  while (done < due) {
    const std::span<std::byte> rest = request.destination.subspan(done);
    const ssize_t got =
        ::pread(file_.descriptor(), rest.data(), rest.size(), static_cast<off_t>(request.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) file_.fail_read(request.offset + done, errno);
    const std::size_t now = file_.progress(done, static_cast<std::size_t>(got), due);
    if (now == done)
      file_.fail_short(request.offset + done + static_cast<std::size_t>(got),
                       due - done - static_cast<std::size_t>(got));
    done = now;
  }
  return done;
}

}  // namespace moelab
