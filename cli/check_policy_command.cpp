// moelab check-policy: whether a policy keeps the rules of its family, on random instances.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>

#include "cli/commands.hpp"
#include "cli/terminal_line.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "policies/check/policy_check.hpp"
#include "policies/policy_families.hpp"
#include "sim/child_process.hpp"

namespace moelab::cli {
namespace {

struct CheckPolicyArguments {
  std::string policy, family;
  std::uint64_t instances = CheckOptions().instances, seed = 1;
  double time_limit_s = 60;
  std::string format = "table";
};

/// A number in memory that a child writes and its parent reads.
class SharedNumber {
 public:
  SharedNumber() {
    void* const page =
        mmap(nullptr, sizeof(Number), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    number_ = new (page) Number(0);
  }
  ~SharedNumber() { munmap(number_, sizeof(Number)); }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;

  void set(std::uint64_t value) { number_->store(value, std::memory_order_relaxed); }
  std::uint64_t get() const { return number_->load(std::memory_order_relaxed); }

 private:
  using Number = std::atomic<std::uint64_t>;
  static_assert(Number::is_always_lock_free);
  Number* number_;
};

/// 2000 -> "2,000"
std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// The families that have a policy of that name, in the order of their names, or the one that is asked for.
/// Throws InputError where there is none.
std::vector<std::string> families_with(const CheckPolicyArguments& options) {
  std::vector<std::string> with, families, known;
  const bool one = !options.family.empty();
  for (const PolicyFamily& family : policy_families()) {
    families.push_back(family.name);
    if (one && family.name != options.family) continue;
    for (const PolicyInfo& info : family.policies) {
      known.emplace_back(info.name);
      if (info.name == options.policy) with.push_back(family.name);
    }
  }
  if (known.empty())
    throw InputError("", "no family '" + options.family + "'" + suggestion(options.family, families));
  if (with.empty())
    throw InputError("", "no policy '" + shown_word(options.policy) + "'" +
                             (one ? " of family " + options.family : "") + suggestion(options.policy, known));
  std::sort(with.begin(), with.end());
  return with;
}

/// How a child that gave no answer ended, as a rule that the policy broke.
std::string end_of(const ChildOutcome& outcome, const CheckPolicyArguments& options) {
  if (outcome.kind == ChildOutcome::Kind::timeout)
    return "it is still at it after " + nlohmann::json(options.time_limit_s).dump() + " s (--time-limit)";
  if (outcome.signal != 0)
    return "its process was ended by signal " + std::to_string(outcome.signal) + " (" +
           strsignal(outcome.signal) + ")";
  return outcome.text;
}

PolicyCheck check_in_child(const std::string& family, const CheckPolicyArguments& options) {
  SharedNumber instance;
  CheckOptions trials{.instances = options.instances, .seed = options.seed};
  trials.begins = [&](std::uint64_t number) { instance.set(number); };
  const auto work = [&] {
    const PolicyCheck check = check_policy(family, options.policy, trials);
    return nlohmann::json{
        {"instances", check.instances}, {"refused", check.refused}, {"broken", check.broken}}
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const ChildOutcome outcome = ChildProcess(work, {.wall_s = options.time_limit_s}).wait();
  PolicyCheck check{.policy = options.policy, .family = family};
  if (outcome.kind == ChildOutcome::Kind::done) {
    const nlohmann::json said = nlohmann::json::parse(outcome.text);
    check.instances = said["instances"];
    check.refused = said["refused"];
    check.broken = said["broken"];
    return check;
  }
  check.instances = instance.get() + 1;
  check.broken = "instance " + std::to_string(instance.get()) + " of " + with_commas(options.instances) +
                 ": " + end_of(outcome, options);
  return check;
}

std::string sentence_of(const PolicyCheck& check) {
  const std::string who = "policy " + check.policy + " of family " + check.family;
  if (!check.broken.empty()) return who + " breaks a rule: " + check.broken;
  const std::string refused =
      check.refused == 0 ? "" : " (" + with_commas(check.refused) + " it does not take)";
  return who + ": " + with_commas(check.instances) + " instances" + refused + ", every rule held";
}

void check_named_policy(const CheckPolicyArguments& options) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  bool broken = false;
  TerminalLine progress;
  for (const std::string& family : families_with(options)) {
    progress.show("check of policy " + options.policy + " of family " + family);
    const PolicyCheck check = check_in_child(family, options);
    progress.clear();
    broken |= !check.broken.empty();
    if (options.format != "json") std::cout << sentence_of(check) << "\n";
    all.push_back({{"policy", check.policy},
                   {"family", check.family},
                   {"seed", options.seed},
                   {"instances", check.instances},
                   {"refused", check.refused},
                   {"held", check.broken.empty()},
                   {"broken", check.broken}});
  }
  if (options.format == "json") std::cout << all.dump(2) << "\n";
  if (broken) throw CLI::RuntimeError(1);
}

}  // namespace

void add_check_policy(CLI::App& program) {
  const auto options = std::make_shared<CheckPolicyArguments>();
  CLI::App* command = program.add_subcommand(
      "check-policy",
      "Play a policy on random instances as the simulator would, and say whether it keeps the rules of its "
      "family; exit status 1 where it does not");
  command->add_option("NAME", options->policy, "The policy, as 'moelab policies' lists it")->required();
  command->add_option("--family", options->family,
                      "Its family, where several have a policy of that name (default: each of them)");
  command->add_option("--instances", options->instances, "Random instances, each played twice")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of all that is drawn")
      ->check(is_a_seed)
      ->capture_default_str();
  command->add_option("--time-limit", options->time_limit_s, "Seconds for the check of one family")
      ->check(number_from(0.1, 1e6))
      ->capture_default_str();
  add_format(*command, options->format);
  add_policy_library(*command);
  add_example(*command, "moelab check-policy lru --family cache");
  command->callback([options] { check_named_policy(*options); });
}

}  // namespace moelab::cli
