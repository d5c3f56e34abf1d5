#include "hw/store/expert_tensor_name.hpp"

#include <array>
#include <charconv>
#include <system_error>

namespace moelab {

namespace {

constexpr std::uint32_t kMostNumber = 65'535;

struct Form {
  std::string_view middle;  // between the layer's number and the expert's, or the name's end
  std::string_view after;   // the expert's number; none where one tensor holds all experts
  std::string_view kind;
};

constexpr std::array kForms = {
    Form{".mlp.experts.", ".gate_proj.weight", "gate"},
    Form{".mlp.experts.", ".up_proj.weight", "up"},
    Form{".mlp.experts.", ".down_proj.weight", "down"},
    Form{".block_sparse_moe.experts.", ".w1.weight", "gate"},
    Form{".block_sparse_moe.experts.", ".w3.weight", "up"},
    Form{".block_sparse_moe.experts.", ".w2.weight", "down"},
    Form{".mlp.experts.gate_up_proj", "", "gate_up"},
    Form{".mlp.experts.down_proj", "", "down"},
    Form{".feed_forward.experts.gate_up_proj", "", "gate_up"},
    Form{".feed_forward.experts.down_proj", "", "down"},
};

/// Takes a number off the front, written as to_string writes it.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || value > kMostNumber || (digits > 1 && text.front() == '0')) return {};
  text.remove_prefix(digits);
  return value;
}

std::optional<ExpertTensorName> match(const Form& form, ExpertTensorName name, std::string_view rest) {
  if (!rest.starts_with(form.middle)) return {};
  name.kind = form.kind;
  name.middle = rest.substr(0, form.middle.size());
  rest.remove_prefix(form.middle.size());
  if (!form.after.empty()) {
    name.expert = take_number(rest);
    if (!name.expert) return {};
  }
  name.after = rest;
  if (rest != form.after) return {};
  return name;
}

}  // namespace

std::optional<ExpertTensorName> parse_expert_tensor_name(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.rfind(kLayers);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return {};
  ExpertTensorName found;
  found.before = name.substr(0, at + kLayers.size());
  std::string_view rest = name.substr(found.before.size());
  const std::optional<std::uint32_t> layer = take_number(rest);
  if (!layer) return {};
  found.layer = *layer;
  for (const Form& form : kForms)
    if (const auto matched = match(form, found, rest)) return matched;
  return {};
}

std::string ExpertTensorName::of(std::uint32_t other_layer, std::uint32_t other_expert) const {
  std::string name(before);
  name += std::to_string(other_layer);
  name += middle;
  if (expert) name += std::to_string(other_expert);
  return name += after;
}

}  // namespace moelab
