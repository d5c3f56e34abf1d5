#include "sim/child_process.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "models/input_error.hpp"

namespace moelab {
namespace {

using Json = nlohmann::json;

/// What the child has to say: its text, or what went wrong.
std::string answer(const std::function<std::string()>& work) {
  try {
    return Json{{"text", work()}}.dump();
  } catch (const InputError& error) {
    Json problems = Json::array();
    for (const Problem& p : error.problems())
      problems.push_back({{"file", p.file}, {"line", p.line}, {"column", p.column}, {"what", p.what}});
    return Json{{"problems", problems}}.dump();
  } catch (const std::exception& error) {
    return Json{{"error", error.what()}}.dump();
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

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (;;) {
    const ssize_t n = read(descriptor, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

std::string unpack(const std::string& message, int status) {
  const Json j = Json::parse(message, nullptr, false);
  if (j.is_discarded() || !j.is_object())
    throw std::runtime_error(WIFSIGNALED(status) ? "the simulation's process was ended by signal " +
                                                       std::to_string(WTERMSIG(status))
                                                 : "the simulation's process ended without an answer");
  if (j.contains("problems")) {
    std::vector<Problem> problems;
    for (const Json& p : j["problems"]) problems.push_back({p["file"], p["line"], p["column"], p["what"]});
    throw InputError(std::move(problems));
  }
  if (j.contains("error")) throw std::runtime_error(j["error"].get<std::string>());
  return j["text"];
}

}  // namespace

std::string run_in_child(const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  std::cout.flush();  // or the child, flushing, would print it again
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("no child process: ") + std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for the answer of a parent that was killed
    if (getppid() != parent) _exit(1);
    close(ends[0]);
    write_all(ends[1], answer(work));
    _exit(0);
  }
  close(ends[1]);
  const std::string message = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return unpack(message, status);
}

}  // namespace moelab
