#include "traces/domain_list.hpp"

#include <set>
#include <string_view>
#include <utility>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "traces/safetensors.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostDomains = 65536;

// Stops at the first thing that is not a text in the one list, so that nothing hostile is ever built up.
class ListReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<std::string> take() { return std::move(names_); }

  bool string(string_t& text) override {
    if (!in_list_ || names_.size() == kMostDomains) return false;
    names_.push_back(std::move(text));
    return true;
  }
  bool start_array(std::size_t) override { return !std::exchange(in_list_, true); }
  bool end_array() override { return true; }
  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t) override { return false; }
  bool number_unsigned(number_unsigned_t) override { return false; }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool key(string_t&) override { return false; }
  bool start_object(std::size_t) override { return false; }
  bool end_object() override { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool in_list_ = false;
  std::vector<std::string> names_;
};

void check_distinct(const std::string& file, const std::vector<std::string>& domains) {
  std::set<std::string_view> seen;
  for (const std::string& name : domains)
    if (!seen.insert(name).second) throw InputError(file, "the domain " + quoted_name(name) + " comes twice");
}

}  // namespace

std::string domain_list_text(const std::string& file, const std::vector<std::string>& domains) {
  if (domains.size() > kMostDomains)
    throw InputError(
        file, "the number of domains is " + std::to_string(domains.size()) + ", but must be at most 65536");
  check_distinct(file, domains);
  try {
    return nlohmann::json(domains).dump();
  } catch (const nlohmann::json::exception&) {
    throw InputError(file, "a domain's name is not UTF-8");
  }
}

std::vector<std::string> parse_domain_list(const std::string& file, const std::string& text) {
  ListReader reader;
  // nlohmann takes a zero byte for the end of its input, and what follows would go unseen.
  const bool good =
      text.find('\0') == std::string::npos && read_json_events(text.cbegin(), text.cend(), reader);
  std::vector<std::string> names = reader.take();
  if (!good || names.empty())
    throw InputError(file,
                     "metadata 'domains' is " + quoted_name(text) +
                         ", but must be a JSON list of at most 65536 names, such as [\"code\", \"chat\"]");
  check_distinct(file, names);
  return names;
}

}  // namespace moelab
