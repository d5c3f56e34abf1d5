#include "cli/import_note.hpp"

#include <iostream>
#include <string>

#include "cli/layer_table.hpp"
#include "models/model_import.hpp"

namespace moelab::cli {

void say_import_note(const Architecture& model) {
  if (const std::string note = import_note(model); !note.empty())
    std::cerr << "moelab: note: " << one_line(note) << "\n";
}

}  // namespace moelab::cli
