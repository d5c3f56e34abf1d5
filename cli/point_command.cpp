// moelab point: run one point of a sweep for another machine.
#include <sys/prctl.h>

#include <array>
#include <csignal>
#include <iostream>
#include <memory>
#include <new>
#include <string>

#include "cli/commands.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/sweep/point_exchange.hpp"

namespace moelab::cli {
namespace {

/// All of standard input. Throws InputError for more than any job has.
std::string read_job() {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (std::cin.read(buffer.data(), buffer.size()) || std::cin.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > kMost) throw InputError("the job", "has more than 64 MiB");
  }
  return text;
}

RemoteJob checked_job() {
  RemoteJob job = unpack_job(read_job());
  check_data(job);
  return job;
}

void print_result() {
  const ChildOutcome outcome = run_job(checked_job()).child;
  switch (outcome.kind) {
    case ChildOutcome::Kind::done:
      std::cout << outcome.text;
      return;
    case ChildOutcome::Kind::failed:
      std::rethrow_exception(outcome.error);
    case ChildOutcome::Kind::memory:
      throw std::bad_alloc();
    case ChildOutcome::Kind::timeout:
      std::cerr << "moelab: " << outcome.text << "\n";
      throw CLI::RuntimeError(1);
  }
}

/// For the program that hands out points: what became of it, however it ended.
void print_outcome() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a worker that was lost has no use for the answer
  try {
    std::cout << pack_outcome(run_job(checked_job())) << "\n";
  } catch (const InputError& error) {
    std::string text;
    for (const Problem& p : error.problems()) text += (text.empty() ? "" : "; ") + to_string(p);
    std::cout << nlohmann::ordered_json{{"refused", "on " + host_name() + ": " + text}}.dump(
                     -1, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  }
}

}  // namespace

void add_point(CLI::App& program) {
  const auto outcome = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand(
      "point",
      "Run one point of a sweep for another machine: its job on standard input (JSON, as 'moelab sweep "
      "--cluster' hands it out), its result on standard output");
  command->add_flag(
      "--outcome", *outcome,
      "Print what became of it, whatever that is, with time and memory: {\"status\": \"done\", "
      "\"text\": the result, ...}, or {\"refused\": why} for a job of another version of moelab "
      "or with other data files than here");
  add_example(*command, "moelab point < job.json");
  command->callback([outcome] { *outcome ? print_outcome() : print_result(); });
}

}  // namespace moelab::cli
