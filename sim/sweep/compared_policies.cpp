#include "sim/sweep/compared_policies.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

/// The parameter that "k=3" of "lru-k:k=3" is for.
const PolicyParameter& known_parameter(const std::string& name, const PolicyInfo& policy) {
  std::vector<std::string> known;
  for (const PolicyParameter& parameter : policy.parameters) {
    if (parameter.name == name) return parameter;
    known.emplace_back(parameter.name);
  }
  const std::string has = "policy '" + std::string(policy.name) + "' has no parameter";
  if (known.empty()) throw InputError("", has + "s");
  if (name.empty()) throw InputError("", "expected PARAMETER=NUMBER behind ':'" + suggestion(name, known));
  throw InputError("", has + " '" + shown_word(name) + "'" + suggestion(name, known));
}

/// Whether it is whole where it has to be, the run says.
void read_parameter(const std::string& text, const PolicyInfo& policy, PolicyParameters& parameters) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string value = text.substr(std::min(equals + 1, text.size()));
  const PolicyParameter& parameter = known_parameter(text.substr(0, equals), policy);
  const std::string name(parameter.name);
  double number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || rest != value.data() + value.size() || !std::isfinite(number) ||
      number < parameter.low || number > parameter.high)
    throw InputError("", "expected a number from " + shortest_text(parameter.low) + " to " +
                             shortest_text(parameter.high) + " for '" + name + "', found '" +
                             shown_word(value) + "'");
  if (!parameters.emplace(name, number).second)
    throw InputError("", "parameter '" + name + "' is given twice");
}

/// Reads what is asked of one family.
class PolicyNames {
 public:
  PolicyNames(const ComparedFamily& family, const PolicyChoice& own)
      : family_(family), own_(own), known_(policies_of(family)) {
    for (const PolicyInfo& info : known_) names_.emplace_back(info.name);
  }

  /// "lru-k:k=3". Throws InputError, without a place, for what is no policy or none of its parameters.
  ComparedPolicy read(const std::string& text) const {
    ComparedPolicy policy;
    std::size_t end = std::min(text.find(':'), text.size());
    policy.policy = text.substr(0, end);
    if (policy.policy == "all") throw InputError("", "stands alone");
    const auto info = std::find_if(known_.begin(), known_.end(),
                                   [&](const PolicyInfo& one) { return one.name == policy.policy; });
    if (info == known_.end())
      throw InputError("",
                       "is no " + std::string(family_.name) + " policy" + suggestion(policy.policy, names_));
    policy.no_rival = is_a_bound(family_, policy.policy);
    policy.library = info->library;
    PolicyParameters given;
    while (end < text.size()) {
      const std::size_t begin = end + 1;
      end = std::min(text.find(':', begin), text.size());
      read_parameter(text.substr(begin, end - begin), *info, given);
    }
    policy.name = policy.policy;
    for (const auto& [name, value] : given) policy.name += ":" + name + "=" + shortest_text(value);
    policy.is_reference = policy.policy == family_.bound && given.empty();
    policy.parameters = given;
    if (policy.policy == own_.name) given.insert(own_.parameters.begin(), own_.parameters.end());
    for (const PolicyParameter& p : info->parameters)
      policy.all_parameters[std::string(p.name)] = parameter(*info, given, p.name);
    return policy;
  }
  const std::vector<std::string>& all() const { return names_; }

 private:
  const ComparedFamily& family_;
  const PolicyChoice& own_;
  std::vector<PolicyInfo> known_;
  std::vector<std::string> names_;
};

void add_new(ComparedPolicy policy, std::vector<ComparedPolicy>& policies) {
  for (const ComparedPolicy& other : policies)
    if (other.policy == policy.policy && other.all_parameters == policy.all_parameters)
      throw InputError("", "is named twice: it is '" + other.name + "'");
  policies.push_back(std::move(policy));
}

}  // namespace

ComparedPolicy read_policy(const ComparedFamily& family, const std::string& text) {
  const PolicyChoice none;
  return PolicyNames(family, none).read(text);
}

std::vector<ComparedPolicy> policies_to_run(const ComparedFamily& family,
                                            const std::vector<std::string>& named, const PolicyChoice& own) {
  const PolicyNames names(family, own);
  std::vector<ComparedPolicy> policies;
  Problems problems;
  for (const std::string& text : named) {
    try {
      add_new(names.read(text), policies);
    } catch (const InputError& error) {
      problems.add(
          {"--" + std::string(family.name) + " " + shown_word(text), 0, 0, error.problems().front().what});
    }
  }
  problems.throw_if_any();
  if (named.empty())
    for (const std::string& name : names.all()) policies.push_back(names.read(name));
  const bool has_bound =
      std::any_of(policies.begin(), policies.end(), [](const auto& p) { return p.is_reference; });
  if (!family.bound.empty() && !has_bound) policies.push_back(names.read(std::string(family.bound)));
  return policies;
}

}  // namespace moelab
