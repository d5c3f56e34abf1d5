#include "sim/sweep/cluster_workers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "models/input_error.hpp"
#include "models/json.hpp"

extern "C" const char moelab_cluster_script_begin[], moelab_cluster_script_end[];
extern char** environ;

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) {
  throw InputError("--cluster", what + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

/// Both ends do not reach other programs that are started meanwhile.
std::pair<Descriptor, Descriptor> connected_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("no socket");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Descriptor script_file() {
  Descriptor file(memfd_create("moelab-cluster.py", MFD_CLOEXEC));
  if (!file.is_open()) fail("no file in memory");
  const char* at = moelab_cluster_script_begin;
  while (at < moelab_cluster_script_end) {
    const ssize_t n = write(file.get(), at, static_cast<std::size_t>(moelab_cluster_script_end - at));
    if (n < 0 && errno != EINTR) fail("no file in memory");
    at += std::max<ssize_t>(n, 0);
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string python_of(const ClusterPlace& place) {
  if (!place.python.empty()) return place.python;
  const char* named = std::getenv("MOELAB_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

/// The script's name is none of a file: workers look up the source of what they run, and would open a
/// descriptor of their own.
std::vector<std::string> arguments_of(const ClusterPlace& place, const std::string& python, int script) {
  const std::string loader =
      "import sys; sys.path[:] = filter(None, sys.path); "
      "exec(compile(open(" +
      std::to_string(script) + ", 'rb').read(), '<moelab.cluster>', 'exec'))";
  std::vector<std::string> arguments = {python, "-c", loader, "--timeout", std::to_string(place.connect_s)};
  for (const std::string& program : place.programs) {
    arguments.push_back("--moelab");
    arguments.push_back(program);
  }
  arguments.push_back("--");
  arguments.push_back(place.address);
  return arguments;
}

}  // namespace

/// The Python process. Nothing here waits for it but pump().
class ClusterWorkers::Script {
 public:
  explicit Script(const ClusterPlace& place) {
    constexpr int kScript = 3;  // its descriptor there
    Descriptor in, out, err;
    std::tie(in_, in) = connected_pair();
    std::tie(out_, out) = connected_pair();
    std::tie(err_, err) = connected_pair();
    const Descriptor script = script_file();
    const std::string python = python_of(place);
    std::vector<std::string> arguments = arguments_of(place, python, kScript);
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    // High numbers first, so that none is overwritten before it is copied.
    const Descriptor far_script(fcntl(script.get(), F_DUPFD_CLOEXEC, 10));
    const Descriptor far_in(fcntl(in.get(), F_DUPFD_CLOEXEC, 10));
    const Descriptor far_out(fcntl(out.get(), F_DUPFD_CLOEXEC, 10));
    const Descriptor far_err(fcntl(err.get(), F_DUPFD_CLOEXEC, 10));
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, far_in.get(), 0);
    posix_spawn_file_actions_adddup2(&actions, far_out.get(), 1);
    posix_spawn_file_actions_adddup2(&actions, far_err.get(), 2);
    posix_spawn_file_actions_adddup2(&actions, far_script.get(), kScript);
    // A group of its own: Ctrl-C is for this program, which then tells the other to stop.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int failed = posix_spawnp(&process_, python.c_str(), &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
      process_ = -1;
      throw InputError("--cluster", "there is no Python '" + python + "' (" + std::strerror(failed) +
                                        "); name one that has Dask in MOELAB_PYTHON");
    }
    for (const Descriptor* d : {&in_, &out_, &err_}) fcntl(d->get(), F_SETFL, O_NONBLOCK);
  }

  ~Script() {
    if (process_ < 0) return;
    in_.close();  // it stops what runs, and ends
    constexpr double kPatience_s = 5;
    const auto begin = Clock::now();
    while (waitpid(process_, nullptr, WNOHANG) == 0) {
      if (std::chrono::duration<double>(Clock::now() - begin).count() > kPatience_s) kill(process_, SIGKILL);
      poll(nullptr, 0, 20);
    }
  }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  void say(const std::string& line) { unsent_ += line + "\n"; }
  bool is_gone() const { return !out_.is_open(); }
  const std::string& last_errors() const { return errors_; }

  /// Sends and receives, for at most so many seconds, until there is a line; `hear` gets each.
  template <class Hear>
  void pump(double seconds, Hear hear) {
    send_more();
    std::array<pollfd, 3> wanted = {
        {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {unsent_.empty() ? -1 : in_.get(), POLLOUT, 0}}};
    poll(wanted.data(), wanted.size(), static_cast<int>(std::ceil(std::max(seconds, 0.0) * 1e3)));
    send_more();
    receive(err_, errors_);
    constexpr std::size_t kKept = 4000;
    if (errors_.size() > kKept) errors_.erase(0, errors_.size() - kKept);
    receive(out_, unread_);
    std::size_t begin = 0;
    for (std::size_t end; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1)
      hear(unread_.substr(begin, end - begin));
    unread_.erase(0, begin);
  }

 private:
  void send_more() {
    while (!unsent_.empty()) {
      const ssize_t n = send(in_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // full, or gone: its output says so
      unsent_.erase(0, static_cast<std::size_t>(n));
    }
  }

  static void receive(Descriptor& from, std::string& into) {
    std::array<char, 1 << 16> buffer{};
    while (from.is_open()) {
      const ssize_t n = read(from.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return from.close();
      into.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }

  pid_t process_ = -1;
  Descriptor in_, out_, err_;
  std::string unsent_, unread_, errors_;
};

ClusterWorkers::ClusterWorkers(const ClusterPlace& place, ChildLimits limits)
    : address_(place.address), limits_(limits), script_(std::make_unique<Script>(place)) {
  constexpr double kPythonStarts_s = 30;  // on a loaded machine, over a network file system
  const auto begin = Clock::now();
  while (!ready_ && fatal_.empty() && !script_->is_gone()) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > place.connect_s + kPythonStarts_s)
      throw InputError("--cluster " + address_, "did not answer in time");
    script_->pump(0.2, [this](const std::string& line) { hear(line); });
    if (place.meanwhile) place.meanwhile();
  }
  if (!ready_) throw InputError("--cluster " + address_, what_went_wrong());
}

ClusterWorkers::~ClusterWorkers() = default;

/// Points wait on the cluster too, so that a worker that is done has its next one at once.
std::size_t ClusterWorkers::room() const {
  const std::size_t wanted = 2 * slots_ + 2;
  return wanted - std::min(wanted, running_.size());
}

/// Each file is read once: the workers then say where it is another one.
std::vector<DataFile> ClusterWorkers::data_of(const PointJob& job) {
  const Scenario scenario = scenario_of_document("the point's scenario", job.document);
  const std::vector<std::string> paths = scenario_inputs(scenario);
  if (std::any_of(paths.begin(), paths.end(), [this](const auto& p) { return !digests_.contains(p); }))
    for (const DataFile& file : data_files(scenario)) digests_[file.path] = file.digest;
  std::vector<DataFile> data;
  for (const std::string& path : paths) data.push_back({path, digests_.at(path)});
  return data;
}

void ClusterWorkers::start(std::uint64_t number, std::function<PointJob()> job,
                           const std::string& elsewhere_than) {
  PointJob made = job();
  std::vector<DataFile> data = data_of(made);
  RemoteJob remote{std::move(made), std::move(data), limits_};
  const std::string key =
      run_identity(remote.job.document, remote.data, remote.job.settings, remote.job.executor);
  script_->say(
      Json{{"number", number}, {"key", key}, {"elsewhere_than", elsewhere_than}, {"job", pack_job(remote)}}
          .dump());
  running_.emplace(number, std::move(remote));
}

void ClusterWorkers::hear(const std::string& line) {
  const auto has_text = [](const Json& j, const char* key) { return j.contains(key) && j[key].is_string(); };
  const Json j = Json::parse(line, nullptr, false);
  if (!j.is_object()) {
    fatal_ = "its Python process said '" + line.substr(0, 200) + "'";
  } else if (j.contains("slots") && j["slots"].is_number_unsigned()) {
    slots_ = j["slots"].get<std::size_t>();
    ready_ = true;
  } else if (has_text(j, "fatal")) {
    fatal_ = j["fatal"].get<std::string>();
  } else if (has_text(j, "left_out")) {
    left_out_.push_back(j["left_out"].get<std::string>());
  } else if (has_text(j, "answer") && has_text(j, "worker") && j.contains("number") &&
             j["number"].is_number_unsigned()) {
    take_answer(j["number"].get<std::uint64_t>(), j["worker"], j["answer"]);
  }
}

/// The worker is believed in nothing that can be checked here.
void ClusterWorkers::take_answer(std::uint64_t number, const std::string& worker, const std::string& answer) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  constexpr int kUnfitAnswers = 3;  // until a worker is left out: one may be a disk, three are the worker
  PointOutcome outcome;
  try {
    outcome = unpack_outcome(answer);
    if (outcome.child.kind == ChildOutcome::Kind::done) check_result(found->second, outcome.child.text);
  } catch (const InputError& error) {
    std::string why = "the answer of worker " + worker + " does not fit the point: " + error.what();
    cut_text(why, kMostFailureBytes);  // libraries may repeat all of what they could not read
    outcome = {};
    outcome.child.text = why;
    if (++unfit_[worker] == kUnfitAnswers)
      script_->say(Json{{"leave_out", worker},
                        {"why", std::to_string(kUnfitAnswers) + " answers that did not fit; " + why}}
                       .dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  outcome.worker = worker;
  running_.erase(found);
  done_.emplace_back(number, std::move(outcome));
}

std::string ClusterWorkers::what_went_wrong() {
  if (!fatal_.empty()) return fatal_;
  script_->pump(0.2, [](const std::string&) {});  // its last words
  return "its Python process ended" + (script_->last_errors().empty() ? "" : ": " + script_->last_errors());
}

std::vector<std::pair<std::uint64_t, PointOutcome>> ClusterWorkers::wait(double seconds) {
  script_->pump(seconds, [this](const std::string& line) { hear(line); });
  if (done_.empty() && (!fatal_.empty() || script_->is_gone()))
    throw InputError("--cluster " + address_, what_went_wrong());
  return std::exchange(done_, {});
}

}  // namespace moelab
