#include "cli/keys/key_table.hpp"

#include "cli/keys/read_key_table.hpp"

extern "C" const char moelab_key_table_begin[], moelab_key_table_end[];

namespace moelab::cli {

std::string_view kept_key_document() {
  return {moelab_key_table_begin, static_cast<std::size_t>(moelab_key_table_end - moelab_key_table_begin)};
}

std::vector<KeyRow> key_table() {
  const std::string_view document = kept_key_document();
  std::vector<KeyRow> rows;
  if (!document.empty()) rows = rows_of_key_document(document);
  return rows.empty() ? read_key_table() : rows;
}

}  // namespace moelab::cli
