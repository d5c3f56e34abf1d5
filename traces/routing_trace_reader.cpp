// read_routing_trace: the file's tensors, each checked, become a TraceData.
#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "models/input_error.hpp"
#include "traces/routing_trace_data.hpp"
#include "traces/row_check.hpp"
#include "traces/trace_file.hpp"

namespace moelab {
namespace {

// Exact, also where the half is subnormal: the same bits as a float stand for 2^-112 of the value. Without a
// jump, so that the compiler converts many at a time.
float from_half(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t{half & 0x7fffU} << 13;
  const float small = std::bit_cast<float>(bits) * 0x1p112F;
  const float value = small >= 65536 ? std::bit_cast<float>(bits | 0x7f800000U) : small;  // infinity or NaN
  return (half & 0x8000) != 0 ? -value : value;
}

float from_bfloat16(std::uint16_t half) {
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}

/// F16 or BF16 scores as single-precision ones, part by part.
std::span<const float> widened(const Tensor& tensor, TraceColumn<float>& own) {
  constexpr std::size_t kHalf = sizeof(std::uint16_t);
  const std::uint64_t values = tensor.data.size() / kHalf;
  own.reserve(values, values * sizeof(float) > kMostInMemory);
  std::vector<float> wide(4096);
  visit_in_parts(tensor.data, kHalf, true, [&](std::size_t, std::span<const std::byte> part) {
    for (std::size_t at = 0; at < part.size(); at += wide.size() * kHalf) {
      const auto some = part.subspan(at, std::min(part.size() - at, wide.size() * kHalf));
      const std::span<float> filled = std::span(wide).first(some.size() / kHalf);
      widen(some, tensor.dtype, filled);
      own.append(filled);
    }
  });
  return own.values();
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(path, kRoutingFormat) {}

  void read_into(TraceData& data) {
    read_metadata(data);
    check_names();
    read_ids(data);
    read_phases(data);
    read_requests(data);
    if (file_.find("gate_scores") != nullptr) read_scores(data);
    if (file_.find("router_scores") != nullptr) read_router(data);
    if (file_.find("lookahead_ids") != nullptr) read_lookahead(data);
    if (!first_version()) read_domains(data);
    data.file = file_.container();
  }

 private:
  [[noreturn]] void fail_at_row(const TraceData& data, const Tensor& tensor, std::uint64_t row,
                                std::uint64_t byte, const std::string& what) const {
    file_.fail_at(tensor, byte,
                  tensor.name + ", token " + std::to_string(row / data.about.layers) + ", layer " +
                      std::to_string(row % data.about.layers) + ": " + what);
  }

  bool first_version() const { return file_.text_of("format_version") == "1"; }
  void read_metadata(TraceData& data) const;
  void check_names() const;
  void check_rows(const TraceData& data, const Tensor& tensor, std::span<const std::uint16_t> ids,
                  std::uint32_t width, bool mapped) const;
  void check_finite(const TraceData& data, const Tensor& tensor) const;
  void read_ids(TraceData& data) const;
  void read_scores(TraceData& data) const;
  void read_router(TraceData& data) const;
  void read_candidates(TraceData& data) const;
  void read_lookahead(TraceData& data) const;
  void read_domains(TraceData& data) const;
  void read_phases(TraceData& data) const;
  void read_requests(TraceData& data) const;
  void read_request(TraceData& data, std::uint64_t begin, std::uint64_t end, const Tensor& phases) const;

  TraceFile file_;
};

void Reader::read_metadata(TraceData& data) const {
  file_.check_version({"1", kTraceVersion});
  data.about.model = file_.text_of("model");
  data.about.provenance = file_.text_of("provenance");
  data.about.synthetic = file_.synthetic();
  data.about.experts = file_.number_of("experts");
}

// What a later version adds comes with a later version number.
void Reader::check_names() const {
  std::vector<std::string> known{"expert_ids", "gate_scores", "request_offsets", "phases"};
  if (!first_version())
    known.insert(known.end(), {"router_scores", "candidate_ids", "lookahead_ids", "request_domains"});
  file_.check_tensor_names(known);
  if (first_version() || file_.find("router_scores") != nullptr) return;
  if (file_.has_text("router_scores"))
    file_.fail("metadata 'router_scores' says what they are, but tensor 'router_scores' is missing");
  if (file_.find("candidate_ids") != nullptr)
    file_.fail("tensor 'candidate_ids' says whose scores there are, but tensor 'router_scores' is missing");
}

/// Rows of `width` ids, the tensor's.
void Reader::check_rows(const TraceData& data, const Tensor& tensor, std::span<const std::uint16_t> ids,
                        std::uint32_t width, bool mapped) const {
  RowCheck check(data.about.experts, width);
  visit_in_parts(ids, width, mapped, [&](std::size_t first, std::span<const std::uint16_t> part) {
    if (const auto bad = check.first_bad(part)) {
      const std::uint64_t row = first / width + *bad;
      fail_at_row(data, tensor, row, row * width * sizeof(std::uint16_t),
                  check.describe(part.subspan(*bad * width, width)));
    }
  });
}

/// Scores of whatever dtype; what is not F32 in place is widened a few at a time.
void Reader::check_finite(const TraceData& data, const Tensor& tensor) const {
  const std::size_t bytes = bits_of(tensor.dtype) / 8;
  const bool in_place = tensor.dtype == Dtype::f32 && is_aligned_for<float>(tensor.data);
  std::vector<float> values(4096);
  visit_in_parts(tensor.data, bytes, true, [&](std::size_t first, std::span<const std::byte> part) {
    const std::size_t step = in_place ? part.size() : values.size() * bytes;
    for (std::size_t at = 0; at < part.size(); at += step) {
      const auto some = part.subspan(at, std::min(part.size() - at, step));
      const std::span<float> wide = std::span(values).first(in_place ? 0 : some.size() / bytes);
      if (!in_place) widen(some, tensor.dtype, wide);
      if (const auto place = first_not_finite(in_place ? elements_of<float>(some) : wide)) {
        const std::uint64_t byte = first + at + *place * bytes;
        fail_at_row(data, tensor, byte / bytes / tensor.shape[2], byte, "the score is not a finite number");
      }
    }
  });
}

void Reader::read_ids(TraceData& data) const {
  const Tensor& tensor = file_.tensor_of("expert_ids", {Dtype::u16}, 3);
  const std::uint64_t layers = tensor.shape[1];
  const std::uint64_t top_k = tensor.shape[2];
  if (tensor.shape[0] == 0) file_.fail_at(tensor, 0, "expert_ids holds no tokens");
  if (layers == 0 || layers > std::numeric_limits<std::uint32_t>::max()) {
    file_.fail_at(tensor, 0,
                  "expert_ids has " + std::to_string(layers) + " layers, but must have 1 to 2^32 - 1");
  }
  if (top_k == 0 || top_k > data.about.experts) {
    file_.fail_at(tensor, 0,
                  "expert_ids has " + std::to_string(top_k) + " ids a row, but must have 1 to " +
                      std::to_string(data.about.experts) + ", the number of experts");
  }
  data.tokens = tensor.shape[0];
  data.about.layers = static_cast<std::uint32_t>(layers);
  data.about.top_k = static_cast<std::uint32_t>(top_k);
  data.ids = in_place_or_copied(tensor, data.own_ids);
  check_rows(data, tensor, data.ids, data.about.top_k, !data.own_ids.in_memory());
}

// F16 and BF16 are widened once, because rows are lent as they are: in a temporary file where they are many.
void Reader::read_scores(TraceData& data) const {
  const Tensor& tensor = file_.tensor_of("gate_scores", {Dtype::f32, Dtype::bf16, Dtype::f16}, 3);
  if (tensor.shape != file_.find("expert_ids")->shape)
    file_.fail_at(tensor, 0, "gate_scores has another shape than expert_ids");
  data.about.gate_scores = true;
  check_finite(data, tensor);
  data.scores = tensor.dtype == Dtype::f32 ? in_place_or_copied(tensor, data.own_scores)
                                           : widened(tensor, data.own_scores);
}

// Router scores stay in the file as they are: there are many, and few readers want them all.
void Reader::read_router(TraceData& data) const {
  const Tensor& tensor = file_.tensor_of("router_scores", {Dtype::f32, Dtype::bf16, Dtype::f16}, 3);
  const std::string& kind = file_.text_of("router_scores");
  const auto name = std::find(kRouterScoreNames.begin() + 1, kRouterScoreNames.end(), kind);
  if (name == kRouterScoreNames.end())
    file_.fail("metadata 'router_scores' is " + quoted_name(kind) +
               ", but must be 'logits', 'softmax' or 'sigmoid'");
  data.about.router_scores = static_cast<RouterScores>(name - kRouterScoreNames.begin());
  if (tensor.shape[0] != data.tokens || tensor.shape[1] != data.about.layers)
    file_.fail_at(tensor, 0, "router_scores has other tokens or layers than expert_ids");
  const std::uint64_t width = tensor.shape[2];
  const bool some = file_.find("candidate_ids") != nullptr;
  if (some ? width < data.about.top_k || width >= data.about.experts : width != data.about.experts)
    file_.fail_at(tensor, 0,
                  "router_scores has " + std::to_string(width) + " values a row, but must have " +
                      (some ? "from k to less than the number of experts, with candidate_ids"
                            : std::to_string(data.about.experts) +
                                  ", one an expert (or candidate_ids must say whose)"));
  data.about.candidates = some ? static_cast<std::uint32_t>(width) : 0;
  data.router = tensor.data;
  data.router_dtype = tensor.dtype;
  check_finite(data, tensor);
  if (some) read_candidates(data);
}

void Reader::read_candidates(TraceData& data) const {
  const Tensor& tensor = file_.tensor_of("candidate_ids", {Dtype::u16}, 3);
  if (tensor.shape != file_.find("router_scores")->shape)
    file_.fail_at(tensor, 0, "candidate_ids has another shape than router_scores");
  data.candidates = in_place_or_copied(tensor, data.own_candidates);
  check_rows(data, tensor, data.candidates, data.about.candidates, !data.own_candidates.in_memory());
}

void Reader::read_lookahead(TraceData& data) const {
  const Tensor& tensor = file_.tensor_of("lookahead_ids", {Dtype::u16}, 3);
  if (tensor.shape != file_.find("expert_ids")->shape)
    file_.fail_at(tensor, 0, "lookahead_ids has another shape than expert_ids");
  data.about.lookahead = true;
  data.lookahead = in_place_or_copied(tensor, data.own_lookahead);
  check_rows(data, tensor, data.lookahead, data.about.top_k, !data.own_lookahead.in_memory());
}

void Reader::read_domains(TraceData& data) const {
  TraceFile::Domains domains = file_.read_domains(data.requests.size());
  data.about.domains = std::move(domains.names);
  data.request_domains = std::move(domains.of_request);
}

void Reader::read_phases(TraceData& data) const {
  const Tensor& tensor = file_.tensor_of("phases", {Dtype::u8}, 1);
  if (tensor.shape[0] != data.tokens) {
    file_.fail_at(tensor, 0,
                  "phases has " + std::to_string(tensor.shape[0]) + " tokens, but expert_ids has " +
                      std::to_string(data.tokens));
  }
  data.phases = elements_of<std::uint8_t>(tensor.data);
  const auto bad = std::find_if(data.phases.begin(), data.phases.end(),
                                [](std::uint8_t p) { return p > static_cast<std::uint8_t>(Phase::decode); });
  if (bad != data.phases.end()) {
    const auto token = static_cast<std::uint64_t>(bad - data.phases.begin());
    file_.fail_at(tensor, token,
                  "phases, token " + std::to_string(token) + ": " + std::to_string(*bad) +
                      " is not a phase (0 encoder, 1 prefill, 2 decode)");
  }
}

void Reader::read_requests(TraceData& data) const {
  const Tensor& tensor = file_.tensor_of("request_offsets", {Dtype::u64}, 1);
  TraceColumn<std::uint64_t> copied;
  const std::span<const std::uint64_t> offsets = in_place_or_copied(tensor, copied);
  if (offsets.size() < 2) file_.fail_at(tensor, 0, "request_offsets must hold at least two offsets");
  if (offsets.front() != 0) {
    file_.fail_at(tensor, 0, "request_offsets starts with " + std::to_string(offsets.front()) + ", not 0");
  }
  const Tensor& phases = *file_.find("phases");
  data.requests.reserve(offsets.size() - 1);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i + 1] < offsets[i] || offsets[i + 1] > data.tokens) {
      file_.fail_at(tensor, (i + 1) * sizeof(std::uint64_t),
                    "request_offsets[" + std::to_string(i + 1) + "] is " + std::to_string(offsets[i + 1]) +
                        ", but must be between the offset before it, " + std::to_string(offsets[i]) +
                        ", and the number of tokens, " + std::to_string(data.tokens));
    }
    read_request(data, offsets[i], offsets[i + 1], phases);
  }
  if (offsets.back() != data.tokens) {
    file_.fail_at(tensor, (offsets.size() - 1) * sizeof(std::uint64_t),
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
    file_.fail_at(phases, token,
                  "phases, token " + std::to_string(token) + ": " + std::to_string(*unsorted) + " follows " +
                      std::to_string(*(unsorted - 1)) + " in request " +
                      std::to_string(data.requests.size()) + " (encoder, prefill, decode is the order)");
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
  const auto each = [&](auto convert) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + i * sizeof half, sizeof half);
      values[i] = convert(half);
    }
  };
  if (dtype == Dtype::bf16)
    each(from_bfloat16);
  else
    each(from_half);
}

RoutingTrace read_routing_trace(const std::string& path) {
  const auto impl = std::make_shared<RoutingTrace::Impl>();
  try {
    Reader(path).read_into(*impl);
  } catch (const InputError& error) {
    const std::string ending = std::filesystem::path(path).extension().string();
    std::vector<Problem> problems = error.problems();
    for (const std::string form : {"csv", "jsonl", "npy", "npz"})
      if (ending == "." + form && std::filesystem::exists(path))
        problems.back().what += "; 'moelab trace import " + form + "' makes a routing trace of such a file";
    throw InputError(std::move(problems));
  }
  RoutingTrace trace;
  trace.impl_ = impl;
  return trace;
}

}  // namespace moelab
