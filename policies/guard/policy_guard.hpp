// What the guards of all families share: whose answers are checked, and how a broken rule is told.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "policies/guard/guarded_policies.hpp"
#include "policies/guard/policy_error.hpp"

namespace moelab {

inline bool is_guarded(const PolicyInfo& info, const GuardOptions& options) {
  return options.closely || !info.library.empty();
}

/// Sums of doubles in another order differ by less than this share of them.
inline constexpr double kGuardRounding = 1e-9;

/// Whether `value` is a number from 0 to `most`, but for rounding.
inline bool within(double value, double most) {
  return value >= 0 && value <= most + kGuardRounding * most;
}

/// "1 expert", "2 experts": `thing` takes an s.
std::string counted(std::uint64_t count, const char* thing);

/// Calls a policy and tells what it did wrong: "policy 'mine' (./libmine.so), step 17 of layer 3: holds 1.20
/// GB, its memory is 1.00 GB".
class PolicyGuard {
 public:
  explicit PolicyGuard(const PolicyInfo& info, const GuardOptions& options = {});

  /// Steps are counted from 1.
  void begin_step() { ++step_; }
  void begin_step(std::uint32_t layer) {
    ++step_;
    layer_ = layer;
  }
  /// The layer that the messages name from now on.
  void enter(std::uint32_t layer) { layer_ = layer; }

  /// Throws PolicyError. `rule`: what the policy did, as a sentence's end.
  [[noreturn]] void broken(const std::string& rule) const;
  void require(bool kept, const char* rule) const {
    if (!kept) broken(rule);
  }

  /// What `work`, a call of the policy, returns. Any exception becomes a PolicyError.
  template <class Work>
  auto ask(const Work& work) const {
    return call(work, false);
  }
  /// The same of a call in which the policy may refuse what it is given: an InputError passes.
  template <class Work>
  auto ask_or_be_refused(const Work& work) const {
    return call(work, true);
  }

 private:
  template <class Work>
  auto call(const Work& work, bool may_refuse) const {
    try {
      return work();
    } catch (const PolicyError&) {
      throw;
    } catch (const InputError& error) {
      if (may_refuse) throw;
      broken(std::string("throws: ") + error.what());
    } catch (const UnusableAnswer& answer) {
      broken(answer.what());
    } catch (const std::exception& error) {
      broken(std::string("throws: ") + error.what());
    } catch (...) {
      broken("throws what is no std::exception");
    }
  }

  std::string who_;
  std::uint64_t step_ = 0;
  std::optional<std::uint32_t> layer_;
};

/// What a policy's maker gives, never null.
template <class Make>
auto made_policy(const PolicyInfo& info, const GuardOptions& options, const Make& make) {
  const PolicyGuard guard(info, options);
  auto policy = guard.ask_or_be_refused(make);
  guard.require(policy != nullptr, "its maker gives no policy");
  return policy;
}

}  // namespace moelab
