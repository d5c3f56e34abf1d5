// What the readers of the kinds of traces have in common. Private to them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/safetensors.hpp"
#include "traces/spilled_bytes.hpp"
#include "traces/trace_column.hpp"

namespace moelab {

/// Names in the files, as traces/README.md specifies them.
inline constexpr std::string_view kRoutingFormat = "moelab-routing";
inline constexpr std::string_view kCountsFormat = "moelab-counts";
inline constexpr std::string_view kRecorded = "recorded";
inline constexpr std::string_view kSynthetic = "synthetic";

/// An open trace. Every member throws InputError naming the file when it is not as asked.
class TraceFile {
 public:
  /// The file must be of this format: one of those above. Of another one, the error says what it is.
  TraceFile(const std::filesystem::path& path, std::string_view format);

  [[noreturn]] void fail(const std::string& what) const;
  /// At a byte of the tensor's data.
  [[noreturn]] void fail_at(const Tensor& tensor, std::uint64_t byte, const std::string& what) const;

  bool has_text(const char* key) const;
  const std::string& text_of(const char* key) const;
  void check_version(std::initializer_list<std::string_view> known) const;
  bool synthetic() const;
  /// A decimal number from 1 to 65535.
  std::uint32_t number_of(const char* key) const;

  /// A misspelt optional tensor must not go unseen: any that is not known is refused.
  void check_tensor_names(const std::vector<std::string>& known) const;
  const Tensor* find(const char* name) const { return file_.find(name); }
  const Tensor& tensor_of(const char* name, std::initializer_list<Dtype> dtypes,
                          std::size_t dimensions) const;
  /// The metadata's `domains` and the tensor `request_domains`, of which there are both or neither: one place
  /// in the list for each of so many requests; both empty where there are neither.
  struct Domains {
    std::vector<std::string> names;
    std::vector<std::uint16_t> of_request;
  };
  Domains read_domains(std::uint64_t requests) const;

  const SafetensorsFile& container() const { return file_; }

 private:
  SafetensorsFile file_;
  std::string_view format_;
};

/// Calls visit(first value, values) for parts of a few megabytes, one after the other; the pages of each
/// leave the memory when it has been seen, if `mapped`. So a pass over a large file does not fill the memory.
template <class T, class Visit>
void visit_in_parts(std::span<const T> values, std::size_t multiple, bool mapped, Visit visit) {
  constexpr std::size_t kPart = std::size_t{8} << 20;
  const std::size_t part = std::max<std::size_t>(kPart / sizeof(T) / multiple, 1) * multiple;
  for (std::size_t first = 0; first < values.size(); first += part) {
    const auto seen = values.subspan(first, std::min(part, values.size() - first));
    visit(first, seen);
    if (mapped) release_pages(std::as_bytes(seen));
  }
}

/// The tensor's elements: in place where they lie aligned, else copied to `own`.
template <typename T>
std::span<const T> in_place_or_copied(const Tensor& tensor, TraceColumn<T>& own) {
  if (is_aligned_for<T>(tensor.data)) return elements_of<T>(tensor.data);
  constexpr std::size_t kPart = 4096;
  std::vector<T> part(kPart);
  own.reserve(tensor.data.size() / sizeof(T), tensor.data.size() > kMostInMemory);
  for (std::size_t at = 0; at < tensor.data.size(); at += kPart * sizeof(T)) {
    const auto bytes = tensor.data.subspan(at, std::min(kPart * sizeof(T), tensor.data.size() - at));
    std::memcpy(part.data(), bytes.data(), bytes.size());
    own.append(std::span<const T>(part).first(bytes.size() / sizeof(T)));
  }
  return own.values();
}

}  // namespace moelab
