// The repository's default trace is what traces/default/PROVENANCE.md says: its figures are worked out here
// from their definitions, row by row, printed as the document prints them, and looked up in it.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tests/traces/naive_statistics.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/default_trace.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::default_trace_test {
namespace {

using namespace test;

const std::string kFolder = MOELAB_SOURCE_DIR "/traces/default/";

std::string printed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

/// The document's table row that begins with the name: the name, then each layer's figure.
std::string table_row(const std::string& document, const std::string& name) {
  const std::size_t begin = document.find("\n| " + name + " |");
  REQUIRE(begin != std::string::npos);
  return document.substr(begin + 1, document.find('\n', begin + 1) - begin - 1);
}

/// What such a row should be; empty where there is no figure.
std::string row_of(const std::string& name, const std::function<double(std::uint32_t)>& figure) {
  std::string row = "| " + name + " |";
  for (std::uint32_t layer = 0; layer < 8; ++layer) {
    const double value = figure(layer);
    row += (std::isnan(value) ? "" : " " + printed(value)) + " |";
  }
  return row;
}

/// A layer's experts, by request and token.
Requests layer_of(const RoutingTrace& trace, std::uint32_t layer) {
  Requests requests;
  for (const TraceRequest& request : trace.requests()) {
    requests.emplace_back();
    for (std::uint64_t token = request.begin; token < request.end; ++token) {
      const auto ids = trace.experts_of(token, layer);
      requests.back().emplace_back(ids.begin(), ids.end());
    }
  }
  return requests;
}

std::vector<double> uses_of(const Requests& requests) {
  std::vector<const std::vector<Set>*> all;
  for (const auto& request : requests) all.push_back(&request);
  return counts_of(all, 32);
}

double busiest(std::vector<double> uses) {
  std::sort(uses.rbegin(), uses.rend());
  return std::accumulate(uses.begin(), uses.begin() + 8, 0.0) / total(uses);
}

double entropy_share(const std::vector<double>& uses) {
  double bits = 0;
  for (const double n : uses) bits -= n / total(uses) * std::log2(n / total(uses));
  return bits / 5;
}

double independent(const std::vector<double>& uses) {
  const double tokens = total(uses) / 4;
  double squares = 0;
  for (const double n : uses) squares += n / tokens * n / tokens;
  return squares / 4;
}

double named_by_lookahead(const RoutingTrace& trace, std::uint32_t layer) {
  if (layer == 0) return kNaN;
  double named = 0;
  for (std::uint64_t token = 0; token < trace.tokens(); ++token) {
    const auto ahead = trace.lookahead_of(token, layer);
    for (const std::uint16_t id : trace.experts_of(token, layer))
      named += std::find(ahead.begin(), ahead.end(), id) != ahead.end();
  }
  return named / static_cast<double>(4 * trace.tokens());
}

double between_domains(const RoutingTrace& trace, const Requests& requests) {
  std::vector<std::vector<double>> groups;
  for (std::size_t domain = 0; domain < 9; ++domain) {
    std::vector<const std::vector<Set>*> own;
    for (std::size_t r = 0; r < requests.size(); ++r)
      if (trace.domain_of(r) == domain) own.push_back(&requests[r]);
    groups.push_back(counts_of(own, 32));
  }
  return divergence(groups);
}

struct Chosen {
  bool best;     // the four best of the recorded logits, of equal ones the smaller ids
  float margin;  // their least logit less the greatest of the others
};

Chosen chosen(const RoutingTrace& trace, std::uint64_t token, std::uint32_t layer) {
  std::array<float, 32> logits{};
  std::array<std::uint16_t, 32> order{};
  trace.router_scores_of(token, layer, logits);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
  const auto ids = trace.experts_of(token, layer);
  const auto is_chosen = [&](std::uint16_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  float least = INFINITY, greatest_other = -INFINITY;
  for (const std::uint16_t id : order) {
    if (is_chosen(id))
      least = std::min(least, logits[id]);
    else
      greatest_other = std::max(greatest_other, logits[id]);
  }
  return {std::all_of(order.begin(), order.begin() + 4, is_chosen), least - greatest_other};
}

}  // namespace

TEST_CASE("the default trace has the sizes and parts that its provenance says") {
  const std::string document = read_bytes(kFolder + "PROVENANCE.md");
  const RoutingTrace trace = read_routing_trace(kFolder + "debian-moe-8x32.safetensors");
  const TraceDescription& about = trace.description();
  CHECK(std::filesystem::file_size(kFolder + "debian-moe-8x32.safetensors") == 2'709'303);
  CHECK(document.find("2 709 303 bytes") != std::string::npos);
  CHECK(about.model == "moelab/debian-moe-8x32");
  CHECK_FALSE(about.synthetic);
  CHECK(about.layers == 8);
  CHECK(about.experts == 32);
  CHECK(about.top_k == 4);
  CHECK(about.gate_scores);
  CHECK(about.router_scores == RouterScores::logits);
  CHECK(about.candidates == 0);
  CHECK(about.lookahead);
  std::uint64_t prefill = 0, decode = 0;
  for (const TraceRequest& request : trace.requests()) {
    prefill += request.decode_begin - request.begin;
    decode += request.end - request.decode_begin;
    CHECK(trace.phase_of(request.begin) == Phase::prefill);
  }
  REQUIRE(about.domains.size() == 9);
  std::array<int, 9> of_domain{};
  for (std::size_t r = 0; r < trace.requests().size(); ++r) ++of_domain[trace.domain_of(r)];
  CHECK(std::all_of(of_domain.begin(), of_domain.end(), [](int n) { return n == 3; }));
  for (const std::string& domain : about.domains)  // the table of losses names them too
    CHECK(document.find("\n| " + domain) != std::string::npos);
  CHECK(document.find(std::to_string(trace.requests().size()) +
                      " requests of 9 kinds, three of each: " + std::to_string(prefill) + " prefill and " +
                      std::to_string(decode) + " decode tokens") != std::string::npos);
}

TEST_CASE("the default trace by its name; a misspelt one is answered with it") {
  CHECK(is_default_trace(kDefaultTrace));
  CHECK(open_routing_trace(kDefaultTrace).tokens() ==
        read_routing_trace(kFolder + "debian-moe-8x32.safetensors").tokens());
  CHECK_FALSE(is_default_trace("gpt-oss.safetensors"));
  CHECK_THROWS_WITH(is_default_trace("debian-moe-8x33"), Catch::Contains("did you mean 'debian-moe-8x32'?"));
}

TEST_CASE("the default trace routes as its provenance says, layer by layer") {
  const std::string document = read_bytes(kFolder + "PROVENANCE.md");
  const RoutingTrace trace = read_routing_trace(kFolder + "debian-moe-8x32.safetensors");
  REQUIRE(trace.layers() == 8);
  REQUIRE(trace.experts() == 32);
  REQUIRE(trace.top_k() == 4);
  std::vector<Requests> layers;
  std::vector<std::vector<double>> uses;
  for (std::uint32_t layer = 0; layer < 8; ++layer) {
    layers.push_back(layer_of(trace, layer));
    uses.push_back(uses_of(layers.back()));
    CHECK(*std::min_element(uses.back().begin(), uses.back().end()) > 0);  // every expert is used
  }
  const auto check = [&](const std::string& name, const std::function<double(std::uint32_t)>& figure) {
    CHECK(table_row(document, name) == row_of(name, figure));
  };
  check("share of the 8 busiest experts (even: 0.25)", [&](auto l) { return busiest(uses[l]); });
  check("entropy over log2 32", [&](auto l) { return entropy_share(uses[l]); });
  check("experts kept from the previous token", [&](auto l) { return naive_reuse(layers[l], 4); });
  check("the same if tokens were independent", [&](auto l) { return independent(uses[l]); });
  check("look-ahead: share of the chosen experts it names",
        [&](auto l) { return named_by_lookahead(trace, l); });
  check("Jensen-Shannon divergence between domains, bits",
        [&](auto l) { return between_domains(trace, layers[l]); });
}

TEST_CASE("the default trace's experts are the best of its logits, and its gates what the provenance says") {
  const std::string document = read_bytes(kFolder + "PROVENANCE.md");
  const RoutingTrace trace = read_routing_trace(kFolder + "debian-moe-8x32.safetensors");
  const auto rows = static_cast<double>(trace.tokens() * trace.layers());
  double best = 0, worst_margin = 0;
  std::array<double, 4> gates{};
  for (std::uint64_t token = 0; token < trace.tokens(); ++token)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
      const Chosen row = chosen(trace, token, layer);
      best += row.best;
      worst_margin = std::min<double>(worst_margin, row.margin);
      for (std::size_t r = 0; r < 4; ++r) gates[r] += trace.scores_of(token, layer)[r] / rows;
    }
  CHECK(worst_margin == 0);  // where they are not the best, they are equal to one that is
  CHECK(printed(best / rows) == "0.999");
  CHECK(
      document.find("best recorded logits in 99.9 % of the rows; in the rest F16 makes two of them equal") !=
      std::string::npos);
  CHECK(document.find("Mean weights by rank: " + printed(gates[0]) + ", " + printed(gates[1]) + ", " +
                      printed(gates[2]) + ", " + printed(gates[3]) + ".") != std::string::npos);
}

}  // namespace moelab::default_trace_test
