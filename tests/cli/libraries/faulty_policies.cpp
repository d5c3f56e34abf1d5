// Libraries that cannot be used, one for each FAULT.
#include "policies/policy_library.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

enum : int { kThrows = 5, kTooMuch, kCrashes, kHangs, kExits = 10, kPretends };  // 0 to 4 and 9 are below

namespace {

using namespace moelab;

/// Keeps whatever is used, as long as there is room; in its fifth step it does what its library is for.
class Faulty final : public CachePolicy {
 public:
  static constexpr int kAt = 5;
  explicit Faulty(const CacheShape& shape) : shape_(shape), states_(shape.objects, State::M) {}
  std::span<const State> states() const override { return states_; }
  void begin_step(const moelab::CacheStep&) override {
    step_ = step_ + 1;
    if (FAULT == kPretends) states_.assign(states_.size(), shape_.kept_as);
  }
  void use(const ExpertUse& use) override {
    if (step_ == kAt && FAULT == kThrows) throw std::runtime_error("no idea what to keep");
    if (step_ == kAt && FAULT == kCrashes) std::abort();
    if (step_ == kAt && FAULT == kExits) std::exit(0);
    while (step_ == kAt && FAULT == kHangs) {
    }
    const double bytes = shape_.bytes[index(shape_.kept_as)];
    const bool fits = bytes_ + bytes <= shape_.capacity_bytes;
    if (states_[use.object] != State::M || (!fits && (step_ < kAt || FAULT != kTooMuch))) return;
    states_[use.object] = shape_.kept_as;
    bytes_ += bytes;
  }
  double bytes_held() const override { return bytes_; }

 private:
  CacheShape shape_;
  std::vector<State> states_;
  double bytes_ = 0;
  std::atomic<int> step_ = 0;
};

[[maybe_unused]] CachePolicyEntry entry(std::string_view name, std::string_view help = "of a test") {
  return {.info = {.name = name, .help = help, .source = "tests"},
          .make = [](const CacheShape& shape, const PolicyParameters&) -> std::unique_ptr<CachePolicy> {
            return std::make_unique<Faulty>(shape);
          }};
}

/// Nothing of it is as it should be.
[[maybe_unused]] CachePolicyEntry bad_entry() {
  CachePolicyEntry bad = entry("Not A Name", "");
  bad.make = nullptr;
  bad.info.source = "two\nlines";
  bad.info.parameters = {
      {.name = "policy", .unit = "", .default_value = 1, .help = "a key of systems"},
      {.name = "high", .unit = "", .default_value = 3, .low = 0, .high = 1, .help = "outside its range"},
      {.name = "mute", .unit = "", .default_value = 0, .help = ""}};
  return bad;
}

}  // namespace

#if FAULT == 0
extern "C" {
[[gnu::visibility("default")]] std::uint32_t moelab_policy_interface() {
  return moelab::kPolicyInterface + 1;
}
[[gnu::visibility("default")]] std::uint64_t moelab_policy_layout() {
  return moelab::kPolicyLayout;
}
[[gnu::visibility("default")]] void moelab_policies(moelab::PolicyLibrary&) {
  std::abort();
}
}
#elif FAULT == 1
extern "C" {
[[gnu::visibility("default")]] std::uint32_t moelab_policy_interface() {
  return moelab::kPolicyInterface;
}
[[gnu::visibility("default")]] std::uint64_t moelab_policy_layout() {
  return moelab::kPolicyLayout + 1;
}
[[gnu::visibility("default")]] void moelab_policies(moelab::PolicyLibrary&) {
  std::abort();
}
}
#elif FAULT == 2
extern "C" {
[[gnu::visibility("default")]] std::uint32_t moelab_policy_interface() {
  return moelab::kPolicyInterface;
}
[[gnu::visibility("default")]] std::uint64_t moelab_policy_layout() {
  return moelab::kPolicyLayout;
}
[[gnu::visibility("default")]] void moelab_policies(moelab::PolicyLibrary&) {}
}
#elif FAULT == 3
MOELAB_POLICIES(bad_entry(), entry("twice"), entry("twice"))
#elif FAULT == 4
MOELAB_POLICIES(entry("good"), entry("lru"))
#elif FAULT == 9
[[gnu::visibility("default")]] int something_else() {
  return static_cast<int>(entry("x").info.name.size()) + bad_entry().preloads;
}
#else
MOELAB_POLICIES(entry("faulty"))
#endif
