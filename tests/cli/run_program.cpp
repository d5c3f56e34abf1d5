#include "tests/cli/run_program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A command that takes long on a slow machine says how far it is, which no test is about.
std::string without_progress(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("moelab: progress: ")) kept += line + (lines.eof() ? "" : "\n");
  return kept;
}

std::string temporary_file() {
  std::string path = (std::filesystem::temp_directory_path() / "moelab-cli-XXXXXX").string();
  const int descriptor = mkstemp(path.data());
  if (descriptor < 0) throw std::runtime_error("no temporary file");
  close(descriptor);
  return path;
}

}  // namespace

ProgramResult run_program(const std::string& program, const std::vector<std::string>& arguments,
                          const std::function<void(pid_t)>& meanwhile) {
  const std::string out = temporary_file(), err = temporary_file();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    std::vector<char*> argv;
    argv.push_back(const_cast<char*>(program.c_str()));
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const int o = open(out.c_str(), O_WRONLY | O_TRUNC), e = open(err.c_str(), O_WRONLY | O_TRUNC);
    dup2(o, STDOUT_FILENO);
    dup2(e, STDERR_FILENO);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  if (meanwhile) meanwhile(child);
  int raw = 0;
  waitpid(child, &raw, 0);
  ProgramResult result{WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw), contents(out),
                       without_progress(contents(err))};
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return result;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line.substr(0, line.find(" #")) + " ") {
    if (c == '"')
      quoted = !quoted;
    else if (c != ' ' || quoted)
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  words.pop_back();
  words.erase(words.begin());
  return words;
}
