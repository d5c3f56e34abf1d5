// read_routing_trace: the file's tensors, each checked, become a TraceData.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/input_error.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/row_check.hpp"

namespace moelab {
namespace {

// Exact: every half-precision number is a single-precision one.
float from_half(std::uint16_t half) {
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = (half >> 10) & 0x1f;
  const int fraction = half & 0x3ff;
  if (exponent == 0x1f) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

float from_bfloat16(std::uint16_t half) {
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}

/// The names of a JSON array of texts.
std::vector<std::string> domain_names(const std::string& file, const std::string& text) {
  const nlohmann::json names = nlohmann::json::parse(text, nullptr, false);
  const bool good =
      names.is_array() && !names.empty() && names.size() <= 65536 &&
      std::all_of(names.begin(), names.end(), [](const auto& name) { return name.is_string(); });
  if (!good)
    throw InputError(file, "metadata 'domains' is " + quoted_name(text) +
                               ", but must be a JSON list of names, such as [\"code\", \"chat\"]");
  return names.get<std::vector<std::string>>();
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : name_(path.string()), file_(SafetensorsFile::open(path)) {}

  void read_into(TraceData& data) {
    read_metadata(data);
    check_tensor_names();
    read_ids(data);
    read_phases(data);
    read_requests(data);
    if (file_.find("gate_scores") != nullptr) read_scores(data);
    if (file_.find("router_scores") != nullptr) read_router(data);
    if (file_.find("lookahead_ids") != nullptr) read_lookahead(data);
    if (file_.find("request_domains") != nullptr) read_domains(data);
    data.file = std::move(file_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError(name_, what); }
  [[noreturn]] void fail_at(const Tensor& tensor, std::uint64_t byte, const std::string& what) const {
    fail("byte " + std::to_string(tensor.file_offset + byte) + ": " + what);
  }
  [[noreturn]] void fail_at_row(const TraceData& data, const Tensor& tensor, std::uint64_t place,
                                const std::string& what) const {
    const std::uint64_t row = place / data.about.top_k;
    const std::uint64_t width = bits_of(tensor.dtype) / 8;
    fail_at(tensor, place * width,
            tensor.name + ", token " + std::to_string(row / data.about.layers) + ", layer " +
                std::to_string(row % data.about.layers) + ": " + what);
  }

  void read_metadata(TraceData& data) const;
  const std::string& text_of(const char* key) const;
  void expect(const char* key, std::string_view value) const;
  bool first_version() const { return text_of("format_version") == "1"; }
  void check_tensor_names() const;
  const Tensor& tensor_of(const char* name, std::span<const Dtype> dtypes, std::size_t dimensions) const;
  void read_ids(TraceData& data) const;
  void read_scores(TraceData& data) const;
  void read_router(TraceData& data) const;
  void read_candidates(TraceData& data) const;
  void read_lookahead(TraceData& data) const;
  void read_domains(TraceData& data) const;
  void read_phases(TraceData& data) const;
  void read_requests(TraceData& data) const;
  void read_request(TraceData& data, std::uint64_t begin, std::uint64_t end, const Tensor& phases) const;

  std::string name_;
  SafetensorsFile file_;
};

const std::string& Reader::text_of(const char* key) const {
  const auto found = file_.metadata().find(key);
  if (found == file_.metadata().end()) {
    fail(std::string("metadata '") + key + "' is missing: not a routing trace (see traces/README.md)");
  }
  return found->second;
}

void Reader::expect(const char* key, std::string_view value) const {
  if (const std::string& text = text_of(key); text != value) {
    fail(std::string("metadata '") + key + "' is " + quoted_name(text) + ", but this program reads '" +
         std::string(value) + "' only");
  }
}

void Reader::read_metadata(TraceData& data) const {
  expect("format", kTraceFormat);
  if (const std::string& version = text_of("format_version"); version != "1" && version != kTraceVersion)
    fail("metadata 'format_version' is " + quoted_name(version) + ", but this program reads '1' and '" +
         std::string(kTraceVersion) + "' only");
  data.about.model = text_of("model");
  data.about.provenance = text_of("provenance");

  const std::string& kind = text_of("kind");
  if (kind != kRecorded && kind != kSynthetic) {
    fail("metadata 'kind' is " + quoted_name(kind) + ", but must be 'recorded' or 'synthetic'");
  }
  data.about.synthetic = kind == kSynthetic;

  const std::string& experts = text_of("experts");
  const char* const end = experts.data() + experts.size();
  const auto [stop, error] = std::from_chars(experts.data(), end, data.about.experts);
  if (error != std::errc{} || stop != end || data.about.experts == 0 || data.about.experts > kNoExpert) {
    fail("metadata 'experts' is " + quoted_name(experts) +
         ", but must be a whole number between 1 and 65535");
  }
}

// A misspelt optional tensor must not go unseen; what a later version adds comes with a later version number.
void Reader::check_tensor_names() const {
  std::vector<std::string> known{"expert_ids", "gate_scores", "request_offsets", "phases"};
  if (!first_version())
    known.insert(known.end(), {"router_scores", "candidate_ids", "lookahead_ids", "request_domains"});
  for (const Tensor& tensor : file_.tensors()) {
    if (std::find(known.begin(), known.end(), tensor.name) == known.end()) {
      fail("tensor " + quoted_name(tensor.name) + " is not one of a routing trace" +
           suggestion(tensor.name, known));
    }
  }
}

const Tensor& Reader::tensor_of(const char* name, std::span<const Dtype> dtypes,
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
  if (tensor->shape.size() != dimensions) {
    fail_at(*tensor, 0,
            std::string("tensor '") + name + "' has " + std::to_string(tensor->shape.size()) +
                " dimensions, but must have " + std::to_string(dimensions));
  }
  return *tensor;
}

/// The tensor's elements: in place where they lie aligned, else copied to `own`.
template <typename T>
std::span<const T> in_place_or_copied(const Tensor& tensor, std::vector<T>& own) {
  if (is_aligned_for<T>(tensor.data)) return elements_of<T>(tensor.data);
  own.resize(tensor.data.size() / sizeof(T));
  std::memcpy(own.data(), tensor.data.data(), tensor.data.size());
  return own;
}

void Reader::read_ids(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::u16};
  const Tensor& tensor = tensor_of("expert_ids", kDtypes, 3);
  const std::uint64_t layers = tensor.shape[1];
  const std::uint64_t top_k = tensor.shape[2];
  if (tensor.shape[0] == 0) fail_at(tensor, 0, "expert_ids holds no tokens");
  if (layers == 0 || layers > std::numeric_limits<std::uint32_t>::max()) {
    fail_at(tensor, 0, "expert_ids has " + std::to_string(layers) + " layers, but must have 1 to 2^32 - 1");
  }
  if (top_k == 0 || top_k > data.about.experts) {
    fail_at(tensor, 0,
            "expert_ids has " + std::to_string(top_k) + " ids a row, but must have 1 to " +
                std::to_string(data.about.experts) + ", the number of experts");
  }
  data.tokens = tensor.shape[0];
  data.about.layers = static_cast<std::uint32_t>(layers);
  data.about.top_k = static_cast<std::uint32_t>(top_k);
  data.ids = in_place_or_copied(tensor, data.own_ids);

  RowCheck check(data.about.experts, data.about.top_k);
  visit_in_parts(data.ids, top_k, data.own_ids.empty(), [&](std::size_t first, auto ids) {
    if (const auto row = check.first_bad(ids))
      fail_at_row(data, tensor, first + *row * top_k, check.describe(ids.subspan(*row * top_k, top_k)));
  });
}

void Reader::read_scores(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::f32, Dtype::bf16, Dtype::f16};
  const Tensor& tensor = tensor_of("gate_scores", kDtypes, 3);
  if (tensor.shape != file_.find("expert_ids")->shape) {
    fail_at(tensor, 0, "gate_scores has another shape than expert_ids");
  }
  data.about.gate_scores = true;
  if (tensor.dtype == Dtype::f32) {
    data.scores = in_place_or_copied(tensor, data.own_scores);
  } else {
    data.own_scores.resize(tensor.data.size() / sizeof(std::uint16_t));
    widen(tensor.data, tensor.dtype, data.own_scores);
    data.scores = data.own_scores;
  }
  visit_in_parts(data.scores, 1, data.own_scores.empty(), [&](std::size_t first, auto scores) {
    if (const auto place = first_not_finite(scores))
      fail_at_row(data, tensor, first + *place, "the score is not a finite number");
  });
}

// Router scores stay in the file as they are: there are many, and few readers want them all.
void Reader::read_router(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::f32, Dtype::bf16, Dtype::f16};
  const Tensor& tensor = tensor_of("router_scores", kDtypes, 3);
  const std::string& kind = text_of("router_scores");
  const auto name = std::find(kRouterScoreNames.begin() + 1, kRouterScoreNames.end(), kind);
  if (name == kRouterScoreNames.end())
    fail("metadata 'router_scores' is " + quoted_name(kind) +
         ", but must be 'logits', 'softmax' or 'sigmoid'");
  data.about.router_scores = static_cast<RouterScores>(name - kRouterScoreNames.begin());
  if (tensor.shape[0] != data.tokens || tensor.shape[1] != data.about.layers)
    fail_at(tensor, 0, "router_scores has other tokens or layers than expert_ids");
  const std::uint64_t width = tensor.shape[2];
  const bool some = file_.find("candidate_ids") != nullptr;
  if (some ? width < data.about.top_k || width >= data.about.experts : width != data.about.experts)
    fail_at(tensor, 0,
            "router_scores has " + std::to_string(width) + " values a row, but must have " +
                (some ? "from k to less than the number of experts, with candidate_ids"
                      : std::to_string(data.about.experts) +
                            ", one an expert (or candidate_ids must say whose)"));
  data.about.candidates = some ? static_cast<std::uint32_t>(width) : 0;
  data.router = tensor.data;
  data.router_dtype = tensor.dtype;
  const std::size_t bytes = bits_of(tensor.dtype) / 8;
  std::vector<float> values(4096);
  visit_in_parts(tensor.data, bytes, true, [&](std::size_t first, std::span<const std::byte> part) {
    for (std::size_t at = 0; at < part.size(); at += values.size() * bytes) {
      const auto some_bytes = part.subspan(at, std::min(part.size() - at, values.size() * bytes));
      const std::span<float> widened = std::span(values).first(some_bytes.size() / bytes);
      widen(some_bytes, tensor.dtype, widened);
      if (const auto place = first_not_finite(widened)) {
        const std::uint64_t row = ((first + at) / bytes + *place) / width;
        fail_at(tensor, first + at + *place * bytes,
                "router_scores, token " + std::to_string(row / data.about.layers) + ", layer " +
                    std::to_string(row % data.about.layers) + ": the score is not a finite number");
      }
    }
  });
  if (some) read_candidates(data);
}

void Reader::read_candidates(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::u16};
  const Tensor& tensor = tensor_of("candidate_ids", kDtypes, 3);
  if (tensor.shape != file_.find("router_scores")->shape)
    fail_at(tensor, 0, "candidate_ids has another shape than router_scores");
  data.candidates = in_place_or_copied(tensor, data.own_candidates);
  const std::size_t width = data.about.candidates;
  RowCheck check(data.about.experts, data.about.candidates);
  visit_in_parts(data.candidates, width, data.own_candidates.empty(), [&](std::size_t first, auto ids) {
    const auto row = check.first_bad(ids);
    if (!row) return;
    const std::uint64_t number = first / width + *row;
    fail_at(tensor, number * width * sizeof(std::uint16_t),
            "candidate_ids, token " + std::to_string(number / data.about.layers) + ", layer " +
                std::to_string(number % data.about.layers) + ": " +
                check.describe(ids.subspan(*row * width, width)));
  });
}

void Reader::read_lookahead(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::u16};
  const Tensor& tensor = tensor_of("lookahead_ids", kDtypes, 3);
  if (tensor.shape != file_.find("expert_ids")->shape)
    fail_at(tensor, 0, "lookahead_ids has another shape than expert_ids");
  data.about.lookahead = true;
  data.lookahead = in_place_or_copied(tensor, data.own_lookahead);
  const std::size_t top_k = data.about.top_k;
  RowCheck check(data.about.experts, data.about.top_k);
  visit_in_parts(data.lookahead, top_k, data.own_lookahead.empty(), [&](std::size_t first, auto ids) {
    if (const auto row = check.first_bad(ids))
      fail_at_row(data, tensor, first + *row * top_k, check.describe(ids.subspan(*row * top_k, top_k)));
  });
}

void Reader::read_domains(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::u16};
  const Tensor& tensor = tensor_of("request_domains", kDtypes, 1);
  data.about.domains = domain_names(name_, text_of("domains"));
  if (tensor.shape[0] != data.requests.size())
    fail_at(tensor, 0,
            "request_domains has " + std::to_string(tensor.shape[0]) + " requests, but request_offsets has " +
                std::to_string(data.requests.size()));
  std::vector<std::uint16_t> copied;
  const std::span<const std::uint16_t> domains = in_place_or_copied(tensor, copied);
  data.request_domains.assign(domains.begin(), domains.end());
  for (std::size_t i = 0; i < domains.size(); ++i)
    if (domains[i] >= data.about.domains.size())
      fail_at(tensor, i * sizeof(std::uint16_t),
              "request_domains[" + std::to_string(i) + "] is " + std::to_string(domains[i]) +
                  ", but there are " + std::to_string(data.about.domains.size()) + " domains");
}

void Reader::read_phases(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::u8};
  const Tensor& tensor = tensor_of("phases", kDtypes, 1);
  if (tensor.shape[0] != data.tokens) {
    fail_at(tensor, 0,
            "phases has " + std::to_string(tensor.shape[0]) + " tokens, but expert_ids has " +
                std::to_string(data.tokens));
  }
  data.phases = elements_of<std::uint8_t>(tensor.data);
  const auto bad = std::find_if(data.phases.begin(), data.phases.end(),
                                [](std::uint8_t p) { return p > static_cast<std::uint8_t>(Phase::decode); });
  if (bad != data.phases.end()) {
    const auto token = static_cast<std::uint64_t>(bad - data.phases.begin());
    fail_at(tensor, token,
            "phases, token " + std::to_string(token) + ": " + std::to_string(*bad) +
                " is not a phase (0 encoder, 1 prefill, 2 decode)");
  }
}

void Reader::read_requests(TraceData& data) const {
  static constexpr std::array kDtypes{Dtype::u64};
  const Tensor& tensor = tensor_of("request_offsets", kDtypes, 1);
  std::vector<std::uint64_t> copied;
  const std::span<const std::uint64_t> offsets = in_place_or_copied(tensor, copied);
  if (offsets.size() < 2) fail_at(tensor, 0, "request_offsets must hold at least two offsets");
  if (offsets.front() != 0) {
    fail_at(tensor, 0, "request_offsets starts with " + std::to_string(offsets.front()) + ", not 0");
  }
  const Tensor& phases = *file_.find("phases");
  data.requests.reserve(offsets.size() - 1);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i + 1] < offsets[i] || offsets[i + 1] > data.tokens) {
      fail_at(tensor, (i + 1) * sizeof(std::uint64_t),
              "request_offsets[" + std::to_string(i + 1) + "] is " + std::to_string(offsets[i + 1]) +
                  ", but must be between the offset before it, " + std::to_string(offsets[i]) +
                  ", and the number of tokens, " + std::to_string(data.tokens));
    }
    read_request(data, offsets[i], offsets[i + 1], phases);
  }
  if (offsets.back() != data.tokens) {
    fail_at(tensor, (offsets.size() - 1) * sizeof(std::uint64_t),
            "request_offsets ends with " + std::to_string(offsets.back()) +
                ", not with the number of tokens, " + std::to_string(data.tokens));
  }
}

void Reader::read_request(TraceData& data, std::uint64_t begin, std::uint64_t end,
                          const Tensor& phases) const {
  const std::span<const std::uint8_t> own = data.phases.subspan(begin, end - begin);
  const auto unsorted = std::is_sorted_until(own.begin(), own.end());
  if (unsorted != own.end()) {
    const std::uint64_t token = begin + static_cast<std::uint64_t>(unsorted - own.begin());
    fail_at(phases, token,
            "phases, token " + std::to_string(token) + ": " + std::to_string(*unsorted) + " follows " +
                std::to_string(*(unsorted - 1)) + " in request " + std::to_string(data.requests.size()) +
                " (encoder, prefill, decode is the order)");
  }
  const auto decode =
      std::lower_bound(own.begin(), own.end(), static_cast<std::uint8_t>(Phase::decode)) - own.begin();
  data.requests.push_back({begin, begin + static_cast<std::uint64_t>(decode), end});
}

}  // namespace

void widen(std::span<const std::byte> bytes, Dtype dtype, std::span<float> values) {
  if (dtype == Dtype::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * sizeof half, sizeof half);
    values[i] = dtype == Dtype::bf16 ? from_bfloat16(half) : from_half(half);
  }
}

RoutingTrace read_routing_trace(const std::filesystem::path& path) {
  const auto impl = std::make_shared<RoutingTrace::Impl>();
  Reader(path).read_into(*impl);
  RoutingTrace trace;
  trace.impl_ = impl;
  return trace;
}

}  // namespace moelab
