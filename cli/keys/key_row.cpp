// What rows of the table of keys say.
#include <algorithm>

#include "cli/keys/key_table.hpp"

namespace moelab::cli {
namespace {

std::string form_text(const AskedKey& form) {
  std::string text(form.path.empty() ? "" : "list, each ");
  text += to_string(form.form);
  for (std::size_t i = 0; i < form.choices.size(); ++i) text += (i > 0 ? ", " : " ") + form.choices[i];
  return text + form.bounds;
}

}  // namespace

std::vector<std::string> file_kinds(const std::vector<KeyRow>& keys) {
  std::vector<std::string> kinds;
  for (const KeyRow& row : keys)
    if (const std::string kind = row.path.substr(0, row.path.find('.'));
        kinds.empty() || kinds.back() != kind)
      kinds.push_back(kind);
  return kinds;
}

std::string taken_text(const KeyRow& row) {
  std::vector<std::string> texts;
  for (const AskedKey& form : row.forms)
    if (const std::string text = form_text(form); std::find(texts.begin(), texts.end(), text) == texts.end())
      texts.push_back(text);
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : " or ") + text;
  return all.empty() ? "curve" : all;
}

}  // namespace moelab::cli
