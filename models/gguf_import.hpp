// The architecture that a GGUF file holds, with what each of its parts weighs in the file.
#pragma once

#include <string>

#include "models/architecture.hpp"

namespace moelab {

/// Layers by which tensors they have and how these are shaped; top_k, heads and windows by the header's
/// values. Bytes by part are the sums of the file's tensors, so that total_bytes() is the file without its
/// header. Of a file in pieces (-00001-of-00003.gguf) any piece will do, where the others lie beside it.
/// Layers that predict further tokens (nextn) are left out, as llama.cpp leaves them out; dense models are
/// read too.
///
/// `name`: the architecture's name; empty: the file's, in lower case. Throws InputError: as
/// gguf::read_header(), for a piece that is missing, and by name for layers and tensors that Architecture
/// cannot say: state-space (Mamba) and RWKV layers, dense FFNs beside experts, experts without names, sparse
/// attention's indexers.
Architecture import_gguf(const std::string& path, const std::string& name = {});

}  // namespace moelab
