// Files of torch.save: a zip archive of a pickle and the tensors' storages. Private to the importers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "traces/import/pickle_reader.hpp"
#include "traces/import/zip_archive.hpp"

namespace moelab {

/// A tensor's elements, row-major.
struct TorchNumbers {
  std::vector<std::uint64_t> shape;
  std::vector<std::int64_t> values;
};

/// The pickle is read, not executed (pickle_reader.hpp). Throws InputError that names the file: not of
/// torch.save, damaged, of a big-endian machine.
class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& path);
  const Pickle& pickle() const { return pickle_; }
  const std::string& name() const { return name_; }
  /// Elements of a tensor. Numbers of a type with fractions must be whole, and below 2^53. Throws InputError
  /// that calls it `what`.
  TorchNumbers numbers(Pickle::Node node, const std::string& what) const;

 private:
  std::string prefix() const;
  std::string read(const std::string& member, std::uint64_t largest) const;

  std::string name_;
  ZipArchive archive_;
  std::string prefix_;
  Pickle pickle_;
};

}  // namespace moelab
