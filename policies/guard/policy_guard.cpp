#include "policies/guard/policy_guard.hpp"

namespace moelab {

std::string counted(std::uint64_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

PolicyGuard::PolicyGuard(const PolicyInfo& info, const GuardOptions& options)
    : who_("policy '" + std::string(info.name) + "'"), layer_(options.layer) {
  if (!info.library.empty()) who_ += " (" + std::string(info.library) + ")";
}

void PolicyGuard::broken(const std::string& rule) const {
  std::string what = who_;
  if (step_ > 0) what += ", step " + std::to_string(step_);
  if (layer_) what += (step_ > 0 ? " of layer " : ", layer ") + std::to_string(*layer_);
  throw PolicyError(what + ": " + rule);
}

}  // namespace moelab
