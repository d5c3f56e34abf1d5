// What the import of a model had to assume, said wherever the model is used.
#pragma once

#include "models/architecture.hpp"

namespace moelab::cli {

/// One line on stderr; nothing of a model that was not imported, or whose file said all.
void say_import_note(const Architecture& model);

}  // namespace moelab::cli
