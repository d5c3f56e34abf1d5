// Files of counts for tests, written by their formats' descriptions: of torch.save and of llama-imatrix.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/gguf_file.hpp"
#include "tests/traces/import_files.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::test {

/// Python's pickle, protocol 2 (Lib/pickletools.py), of values of torch.save.
struct PickleText {
  std::string text = "\x80\x02";
  std::vector<std::string> storages;

  static std::string unicode(const std::string& value) {
    return "X" + bytes_of(std::vector{static_cast<std::uint32_t>(value.size())}) + value;
  }
  static std::string integer(std::uint64_t value) {
    return "J" + bytes_of(std::vector{static_cast<std::int32_t>(value)});
  }
  template <class T>
  std::string tensor(const char* storage, const std::vector<std::uint64_t>& shape,
                     const std::vector<T>& values) {
    std::string sizes = "(", strides = "(";
    std::uint64_t stride = 1;
    std::vector<std::uint64_t> steps;
    for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) steps.insert(steps.begin(), stride);
    for (const std::uint64_t size : shape) sizes += integer(size);
    for (const std::uint64_t step : steps) strides += integer(step);
    const std::string key = std::to_string(storages.size());
    storages.push_back(bytes_of(values));
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + unicode("storage") + "ctorch\n" + storage + "\n" +
           unicode(key) + unicode("cpu") + integer(values.size()) + "tQ" + integer(0) + sizes + "t" +
           strides +
           "t\x89"
           "ccollections\nOrderedDict\n)RtR";
  }
  std::string file(const std::string& value) const {
    std::vector<std::pair<std::string, std::string>> members{{"a/data.pkl", text + value + "."}};
    for (std::size_t i = 0; i < storages.size(); ++i)
      members.emplace_back("a/data/" + std::to_string(i), storages[i]);
    return zip(members);
  }
};

/// An importance matrix as llama-imatrix writes it: the header by GgufText, then the counts.
inline std::string imatrix(const std::vector<std::pair<std::string, std::vector<float>>>& tensors,
                           const std::string& kind = "imatrix") {
  GgufText header;
  header.text("general.type", kind);
  std::string data;
  for (const auto& [name, counts] : tensors) {
    header.tensor(name, {1, counts.size()}, GgufText::kFp32);
    data += bytes_of(counts);
    data.resize((data.size() + 31) / 32 * 32);
  }
  std::string bytes = header.header();
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes + data;
}

}  // namespace moelab::test
