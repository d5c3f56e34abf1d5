#include "sim/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/nothing_fits.hpp"

namespace moelab {
namespace {

std::atomic<const ForkHooks*> fork_hooks = nullptr;

/// With bytes that are no UTF-8 replaced.
std::string valid_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// What the child has to say: a line of JSON, and behind it its text, which may be any bytes.
std::string answer(const std::function<std::string()>& work) {
  try {
    const std::string text = work();
    return nlohmann::json{{"text_bytes", text.size()}}.dump() + "\n" + text;
  } catch (const InputError& error) {
    nlohmann::json problems = nlohmann::json::array();
    for (const Problem& p : error.problems())
      problems.push_back({{"file", p.file}, {"line", p.line}, {"column", p.column}, {"what", p.what}});
    const bool nothing_fits = dynamic_cast<const NothingFits*>(&error) != nullptr;
    return valid_text({{"problems", problems}, {"nothing_fits", nothing_fits}});
  } catch (const std::bad_alloc&) {
    return R"({"memory":true})";
  } catch (const std::exception& error) {
    return valid_text({{"error", error.what()}});
  }
}

void write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    done += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void be_child(const std::function<std::string()>& work, const ChildLimits& limits, pid_t parent,
                           int descriptor, const ForkHooks* hooks) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a parent that was killed waits for no answer
  if (getppid() != parent) _exit(1);
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C reaches the whole group; the parent decides what it means
  if (limits.memory_bytes > 0) {
    const rlimit most{limits.memory_bytes, limits.memory_bytes};
    setrlimit(RLIMIT_AS, &most);
  }
  const std::string said = answer(work);
  if (hooks != nullptr) hooks->at_end();
  write_all(descriptor, said);
  _exit(0);
}

void fill_from_answer(const std::string& message, int status, ChildOutcome& outcome) {
  const auto failed = [&](std::exception_ptr error, const std::string& what) {
    outcome.kind = ChildOutcome::Kind::failed;
    outcome.text = what;
    outcome.error = std::move(error);
  };
  const auto failed_with = [&](const std::string& what) {
    failed(std::make_exception_ptr(std::runtime_error(what)), what);
  };
  const std::size_t line = std::min(message.find('\n'), message.size());
  const nlohmann::json j = nlohmann::json::parse(
      message.begin(), message.begin() + static_cast<std::ptrdiff_t>(line), nullptr, false);
  const bool cut = j.is_object() && j.contains("text_bytes") &&
                   line + 1 + j["text_bytes"].get<std::size_t>() != message.size();
  if (j.is_discarded() || !j.is_object() || cut) {
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    return failed_with(WIFSIGNALED(status) ? "the simulation's process was ended by signal " +
                                                 std::to_string(WTERMSIG(status))
                                           : "the simulation's process ended without an answer");
  }
  if (j.contains("text_bytes")) {
    outcome.kind = ChildOutcome::Kind::done;
    outcome.text = message.substr(line + 1);
  } else if (j.contains("memory")) {
    outcome.kind = ChildOutcome::Kind::memory;
    outcome.text = "out of memory";
  } else if (j.contains("problems")) {
    std::vector<Problem> problems;
    std::string text;
    for (const nlohmann::json& p : j["problems"]) {
      problems.push_back({p["file"], p["line"], p["column"], p["what"]});
      text += (text.empty() ? "" : "\n") + to_string(problems.back());
    }
    failed(j.value("nothing_fits", false) ? std::make_exception_ptr(NothingFits(std::move(problems)))
                                          : std::make_exception_ptr(InputError(std::move(problems))),
           text);
  } else {
    failed_with(j.value("error", "an unknown error"));
  }
}

}  // namespace

void set_fork_hooks(const ForkHooks* hooks) {
  fork_hooks = hooks;
}

ChildProcess::ChildProcess(const std::function<std::string()>& work, ChildLimits limits) : limits_(limits) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  std::cout.flush();  // or the child, flushing, would print it again
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const ForkHooks* const hooks = fork_hooks;  // another thread may set others meanwhile
  if (hooks != nullptr) hooks->before();
  child_ = fork();
  const int fork_error = errno;
  if (hooks != nullptr) (child_ == 0 ? hooks->in_child : hooks->in_parent)();
  if (child_ < 0) {
    const std::string why = std::strerror(fork_error);
    close(ends[0]);
    close(ends[1]);
    throw std::runtime_error("no child process: " + why);
  }
  if (child_ == 0) {
    close(ends[0]);
    be_child(work, limits, parent, ends[1], hooks);
  }
  close(ends[1]);
  descriptor_ = ends[0];
  fcntl(descriptor_, F_SETFL, O_NONBLOCK);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : child_(std::exchange(other.child_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      limits_(other.limits_),
      begin_(other.begin_),
      message_(std::move(other.message_)) {}

ChildProcess::~ChildProcess() {
  if (descriptor_ >= 0) close(descriptor_);
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool ChildProcess::read() {
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const ssize_t n = ::read(descriptor_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n <= 0) return true;
    message_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

double ChildProcess::wall_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

double ChildProcess::seconds_left() const {
  return limits_.wall_s > 0 ? limits_.wall_s - wall_s() : std::numeric_limits<double>::infinity();
}

ChildOutcome ChildProcess::wait() {
  ChildOutcome outcome;
  bool in_time = true;
  while (!read()) {
    const double left = seconds_left();
    in_time = left > 0;
    if (!in_time) break;
    pollfd wanted{descriptor_, POLLIN, 0};
    poll(&wanted, 1, std::isfinite(left) ? static_cast<int>(std::min(left, 3600.0) * 1e3) + 1 : -1);
  }
  if (!in_time) kill(child_, SIGKILL);
  int status = 0;
  rusage usage{};
  while (wait4(child_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  child_ = -1;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  outcome.wall_s = wall_s();
  outcome.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  outcome.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  if (in_time) {
    fill_from_answer(message_, status, outcome);
    if (outcome.kind == ChildOutcome::Kind::memory && limits_.memory_bytes > 0)
      outcome.text = "wanted more than its limit of " + std::to_string(limits_.memory_bytes / 1'000'000) +
                     " MB of address space";
  } else {
    outcome.kind = ChildOutcome::Kind::timeout;
    outcome.text = "still running after its time of " + std::to_string(limits_.wall_s) + " s";
  }
  return outcome;
}

std::string run_in_child(const std::function<std::string()>& work) {
  ChildOutcome outcome = ChildProcess(work).wait();
  if (outcome.kind == ChildOutcome::Kind::memory) throw std::bad_alloc();
  if (outcome.error) std::rethrow_exception(outcome.error);
  return std::move(outcome.text);
}

}  // namespace moelab
