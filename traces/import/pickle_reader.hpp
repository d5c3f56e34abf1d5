// Reads the pickles that torch.save writes for dictionaries of tensors, numbers and texts, without executing
// them: of Python's names only those that stand for tensors, their storages and ordered dictionaries are
// understood, and every other is refused.
// Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/npy.hpp"

namespace moelab {

/// A tensor whose elements lie one after the other in a storage.
struct PickleTensor {
  NpyType type = NpyType::i8;
  std::string storage;       // key of the storage
  std::uint64_t offset = 0;  // elements
  std::vector<std::uint64_t> shape;
};

/// The value of a pickle: nodes by number.
class Pickle {
 public:
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    number,
    text,
    list,
    tuple,
    dict,
    tensor,
    name,
    storage
  };
  using Node = std::uint32_t;

  /// Throws InputError that names `file` and the byte of the pickle: damaged, an opcode or name other than
  /// those of tensors and plain values, a tensor that is not contiguous, more than 2^24 opcodes.
  Pickle(std::string_view bytes, const std::string& file);

  Node root() const { return root_; }
  Kind kind(Node node) const { return values_[node].kind; }
  std::int64_t integer(Node node) const { return values_[node].integer; }  // also of a boolean
  const std::string& text(Node node) const { return texts_[values_[node].index]; }
  /// Elements of a list or tuple; keys and values of a dict in turns.
  const std::vector<Node>& items(Node node) const { return containers_[values_[node].index]; }
  const PickleTensor& tensor(Node node) const { return tensors_[values_[node].index]; }
  /// The value of a text key of a dict; null where there is none, or `node` is no dict.
  const Node* find(Node node, std::string_view key) const;

 private:
  friend class PickleMachine;
  struct Value {
    Kind kind = Kind::none;
    std::uint32_t index = 0;  // of the text, container or tensor
    std::int64_t integer = 0;
  };
  std::vector<Value> values_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Node>> containers_;
  std::vector<PickleTensor> tensors_;
  Node root_ = 0;
};

}  // namespace moelab
