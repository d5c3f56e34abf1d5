#include "traces/trace_file.hpp"

#include <array>
#include <charconv>
#include <system_error>

#include "models/input_error.hpp"
#include "traces/domain_list.hpp"
#include "traces/trace_kind.hpp"

namespace moelab {
namespace {

struct Kind {
  std::string_view format, name, holds, use;
};

constexpr std::array<Kind, 2> kKinds{{
    {kRoutingFormat, "routing trace", "the experts of every token",
     "scenarios that replay them (workload: trace; read_routing_trace)"},
    {kCountsFormat, "counts-only trace", "how often each expert was used, without the tokens",
     "planning and placement by popularity, and statistics (read_counts_trace)"},
}};

const Kind* kind_of(std::string_view format) {
  const auto found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.format == format; });
  return found == kKinds.end() ? nullptr : &*found;
}

std::string texts(std::initializer_list<std::string_view> all) {
  std::string text;
  for (const std::string_view one : all) {
    text += text.empty() ? "'" : " and '";
    text += one;
    text += '\'';
  }
  return text;
}

}  // namespace

TraceKind kind_of_trace(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end())
    throw InputError(file.name(), "metadata 'format' is missing: not a trace (see traces/README.md)");
  if (format->second == kRoutingFormat) return TraceKind::routing;
  if (format->second == kCountsFormat) return TraceKind::counts;
  throw InputError(file.name(), "metadata 'format' is " + quoted_name(format->second) +
                                    ", but this program reads " + texts({kRoutingFormat, kCountsFormat}));
}

TraceFile::TraceFile(const std::filesystem::path& path, std::string_view format)
    : file_(SafetensorsFile::open(path)), format_(format) {
  const std::string& found = text_of("format");
  if (found == format_) return;
  if (const Kind* const other = kind_of(found)) {
    std::string what = "is a ";
    what.append(other->name).append(" (").append(found).append(": ").append(other->holds);
    what.append("), but a ").append(kind_of(format_)->name).append(" (").append(format_);
    what.append(") is due here; ").append(other->name).append("s are for ").append(other->use);
    fail(what);
  }
  fail("metadata 'format' is " + quoted_name(found) + ", but this program reads " + texts({format_}) +
       " here");
}

void TraceFile::fail(const std::string& what) const {
  throw InputError(file_.name(), what);
}

void TraceFile::fail_at(const Tensor& tensor, std::uint64_t byte, const std::string& what) const {
  fail("byte " + std::to_string(tensor.file_offset + byte) + ": " + what);
}

bool TraceFile::has_text(const char* key) const {
  return file_.metadata().count(key) != 0;
}

const std::string& TraceFile::text_of(const char* key) const {
  const auto found = file_.metadata().find(key);
  if (found == file_.metadata().end())
    fail(std::string("metadata '") + key + "' is missing: not a " + std::string(kind_of(format_)->name) +
         " (see traces/README.md)");
  return found->second;
}

void TraceFile::check_version(std::initializer_list<std::string_view> known) const {
  const std::string& version = text_of("format_version");
  if (std::find(known.begin(), known.end(), version) == known.end())
    fail("metadata 'format_version' is " + quoted_name(version) + ", but this program reads " + texts(known) +
         " only");
}

bool TraceFile::synthetic() const {
  const std::string& kind = text_of("kind");
  if (kind != kRecorded && kind != kSynthetic)
    fail("metadata 'kind' is " + quoted_name(kind) + ", but must be 'recorded' or 'synthetic'");
  return kind == kSynthetic;
}

std::uint32_t TraceFile::number_of(const char* key) const {
  const std::string& text = text_of(key);
  const char* const end = text.data() + text.size();
  std::uint32_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end || number == 0 || number > 65535)
    fail(std::string("metadata '") + key + "' is " + quoted_name(text) +
         ", but must be a whole number between 1 and 65535");
  return number;
}

void TraceFile::check_tensor_names(const std::vector<std::string>& known) const {
  for (const Tensor& tensor : file_.tensors())
    if (std::find(known.begin(), known.end(), tensor.name) == known.end())
      fail("tensor " + quoted_name(tensor.name) + " is not one of a " + std::string(kind_of(format_)->name) +
           suggestion(tensor.name, known));
}

const Tensor& TraceFile::tensor_of(const char* name, std::initializer_list<Dtype> dtypes,
                                   std::size_t dimensions) const {
  const Tensor* const tensor = file_.find(name);
  if (tensor == nullptr) fail(std::string("tensor '") + name + "' is missing");
  if (std::find(dtypes.begin(), dtypes.end(), tensor->dtype) == dtypes.end()) {
    std::string due;
    for (const Dtype dtype : dtypes) due += (due.empty() ? "" : " or ") + std::string(name_of(dtype));
    fail_at(*tensor, 0,
            std::string("tensor '") + name + "' is " + std::string(name_of(tensor->dtype)) +
                ", but must be " + due);
  }
  if (tensor->shape.size() != dimensions)
    fail_at(*tensor, 0,
            std::string("tensor '") + name + "' has " + std::to_string(tensor->shape.size()) +
                " dimensions, but must have " + std::to_string(dimensions));
  return *tensor;
}

TraceFile::Domains TraceFile::read_domains(std::uint64_t requests) const {
  if (find("request_domains") == nullptr) {
    if (has_text("domains"))
      fail("metadata 'domains' names kinds of requests, but tensor 'request_domains' is missing");
    return {};
  }
  const Tensor& tensor = tensor_of("request_domains", {Dtype::u16}, 1);
  Domains domains{parse_domain_list(file_.name(), text_of("domains")), {}};
  if (tensor.shape[0] != requests)
    fail_at(tensor, 0,
            "request_domains is of " + std::to_string(tensor.shape[0]) + " requests, but the trace has " +
                std::to_string(requests));
  domains.of_request.resize(requests);
  std::memcpy(domains.of_request.data(), tensor.data.data(), tensor.data.size());
  for (std::size_t i = 0; i < requests; ++i)
    if (domains.of_request[i] >= domains.names.size())
      fail_at(tensor, i * sizeof(std::uint16_t),
              "request_domains[" + std::to_string(i) + "] is " + std::to_string(domains.of_request[i]) +
                  ", but there are " + std::to_string(domains.names.size()) + " domains");
  return domains;
}

}  // namespace moelab
