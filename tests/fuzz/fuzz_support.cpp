#include "tests/fuzz/fuzz_support.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "tests/scratch_folder.hpp"

namespace moelab::fuzz {
namespace {

// Ids of a row: distinct experts, or none of them.
void check_ids(std::span<const std::uint16_t> ids, std::uint32_t experts) {
  const auto none = static_cast<std::size_t>(std::count(ids.begin(), ids.end(), kNoExpert));
  require(none == 0 || none == ids.size());
  if (none != 0) return;
  require(std::set<std::uint16_t>(ids.begin(), ids.end()).size() == ids.size());
  for (const std::uint16_t id : ids) require(id < experts);
}

void check_scores(std::span<const float> scores) {
  for (const float score : scores) require(std::isfinite(score));
}

void touch_row(const RoutingTrace& trace, std::uint64_t token, std::uint32_t layer, std::span<float> scores) {
  const TraceDescription& about = trace.description();
  require(trace.experts_of(token, layer).size() == about.top_k);
  check_ids(trace.experts_of(token, layer), about.experts);
  require(trace.scores_of(token, layer).size() == (about.gate_scores ? about.top_k : 0));
  check_scores(trace.scores_of(token, layer));
  require(trace.lookahead_of(token, layer).size() == (about.lookahead ? about.top_k : 0));
  if (about.lookahead) check_ids(trace.lookahead_of(token, layer), about.experts);
  if (about.router_width() == 0) return;
  trace.router_scores_of(token, layer, scores);
  check_scores(scores);
  require(trace.candidates_of(token, layer).size() == about.candidates);
  if (about.candidates != 0) check_ids(trace.candidates_of(token, layer), about.experts);
}

}  // namespace

std::uint8_t Input::byte() {
  if (rest_.empty()) return 0;
  const auto value = static_cast<std::uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  return value;
}

std::vector<std::pair<std::uint8_t, std::string_view>> Input::parts() {
  std::vector<std::pair<std::uint8_t, std::string_view>> all;
  while (rest_.size() >= 3) {
    const std::uint8_t tag = byte();
    const std::size_t low = byte();
    const std::size_t size = low + (std::size_t{byte()} << 8);
    all.emplace_back(tag, rest_.substr(0, size));
    rest_.remove_prefix(all.back().second.size());
  }
  return all;
}

std::filesystem::path memory_file(std::string_view bytes, std::size_t number) {
  static std::array<int, 4> files{-1, -1, -1, -1};
  int& file = files.at(number);
  if (file < 0) file = ::memfd_create("moelab-fuzz", MFD_CLOEXEC);
  require(file >= 0 && ::ftruncate(file, 0) == 0);
  require(::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return "/proc/self/fd/" + std::to_string(file);
}

std::filesystem::path output_path(const std::string& name) {
  static const test::ScratchFolder folder;
  return folder / name;
}

ImportTarget small_target() {
  ImportTarget target;
  target.out = output_path();
  target.model = "fuzzed";
  target.experts = 8;
  return target;
}

void check_refusal(const InputError& error) {
  static const bool say = std::getenv("MOELAB_FUZZ_SAY") != nullptr;
  if (say) std::fprintf(stderr, "refused: %s\n", error.what());
  require(!error.problems().empty() && !error.problems().front().what.empty());
}

void touch(const void* data, std::size_t bytes) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes; ++i) sum += static_cast<const unsigned char*>(data)[i];
  asm volatile("" : : "r"(sum));  // or the reading would be left out
}

void touch_trace(const RoutingTrace& trace) {
  const TraceDescription& about = trace.description();
  require(trace.tokens() >= 1 && about.layers >= 1 && about.top_k >= 1 && about.top_k <= about.experts);
  touch(trace.model());
  touch(trace.provenance());
  for (const std::string& name : about.domains) touch(name);
  std::uint64_t row = 0;
  for (std::size_t i = 0; i < trace.requests().size(); ++i) {
    const TraceRequest& request = trace.requests()[i];
    require(request.begin == row && request.decode_begin >= row && request.end >= request.decode_begin);
    require(trace.domain_of(i) < std::max<std::size_t>(about.domains.size(), 1));
    row = request.end;
  }
  require(row == trace.tokens());
  std::vector<float> scores(about.router_width());
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    require(trace.phase_of(token) <= Phase::decode);
    for (std::uint32_t layer = 0; layer < about.layers; ++layer) touch_row(trace, token, layer, scores);
  }
}

void touch_imported() {
  touch_trace(read_routing_trace(output_path()));
}

}  // namespace moelab::fuzz
