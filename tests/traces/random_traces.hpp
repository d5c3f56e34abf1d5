// Small random routing traces, kept row by row in plain lists so that tests can work out figures from them
// without the trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "traces/random.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::test {

struct PlainRow {
  Phase phase = Phase::decode;
  std::vector<std::vector<std::uint16_t>> ids;  // [layers][top_k]; kNoExpert where the layer does not run
  std::vector<std::vector<float>> gates;        // [layers][top_k]; falling in no order
};

struct PlainRequest {
  std::uint16_t domain = 0;
  std::vector<PlainRow> rows;
};

struct PlainTrace {
  TraceDescription about;
  std::uint32_t encoder_layers = 0;  // these run for encoder rows alone, the others for the other rows
  std::vector<PlainRequest> requests;

  std::uint64_t prompt_rows() const {
    std::uint64_t rows = 0;
    for (const PlainRequest& request : requests)
      for (const PlainRow& row : request.rows) rows += row.phase != Phase::decode;
    return rows;
  }

  RoutingTrace built() const {
    RoutingTraceBuilder builder(about);
    for (const PlainRequest& request : requests) {
      builder.begin_request(request.domain);
      for (const PlainRow& row : request.rows) {
        std::vector<std::uint16_t> ids;
        std::vector<float> gates;
        for (const auto& layer : row.ids) ids.insert(ids.end(), layer.begin(), layer.end());
        for (const auto& layer : row.gates) gates.insert(gates.end(), layer.begin(), layer.end());
        builder.add_token(row.phase, ids, gates);
      }
    }
    return builder.finish();
  }
};

struct PlainSizes {
  std::uint32_t layers, experts, top_k, requests, longest, encoder_layers;
};

/// Experts with a taste for small ids; gates between 0 and 1 in any order.
inline PlainRow random_row(Random& random, const PlainTrace& trace, Phase phase) {
  PlainRow row;
  row.phase = phase;
  for (std::uint32_t l = 0; l < trace.about.layers; ++l) {
    const bool encoder = l < trace.encoder_layers;
    const bool runs = trace.encoder_layers == 0 || encoder == (phase == Phase::encoder);
    std::vector<std::uint16_t> ids(runs ? 0 : trace.about.top_k, kNoExpert);
    while (ids.size() < trace.about.top_k) {
      const std::uint64_t bound = 1 + random.below(trace.about.experts);
      const auto e = static_cast<std::uint16_t>(random.below(bound));
      if (std::find(ids.begin(), ids.end(), e) == ids.end()) ids.push_back(e);
    }
    row.ids.push_back(ids);
    row.gates.emplace_back();
    for (std::uint32_t i = 0; trace.about.gate_scores && i < trace.about.top_k; ++i)
      row.gates.back().push_back(runs ? static_cast<float>(random.uniform()) : 0);
  }
  return row;
}

inline PlainTrace random_plain_trace(Random& random, const PlainSizes& sizes) {
  PlainTrace trace;
  trace.encoder_layers = sizes.encoder_layers;
  trace.about.model = "random";
  trace.about.provenance = "synthetic: random";
  trace.about.synthetic = true;
  trace.about.layers = sizes.layers;
  trace.about.experts = sizes.experts;
  trace.about.top_k = sizes.top_k;
  trace.about.gate_scores = random.below(2) == 0;
  const std::uint64_t domains = random.below(4);
  for (std::uint64_t d = 0; d < domains; ++d) trace.about.domains.push_back("d" + std::to_string(d));
  const Phase prompt = sizes.encoder_layers > 0 ? Phase::encoder : Phase::prefill;
  for (std::uint32_t r = 0; r < sizes.requests; ++r) {
    PlainRequest& request = trace.requests.emplace_back();
    request.domain = static_cast<std::uint16_t>(domains > 0 ? random.below(domains) : 0);
    // A third of them are empty, but not the last: a trace has a token at least.
    const bool empty = r + 1 < sizes.requests && random.below(3) == 0;
    const std::uint64_t rows = empty ? 0 : 1 + random.below(sizes.longest);
    const std::uint64_t prompt_rows = random.below(rows + 1);
    for (std::uint64_t t = 0; t < rows; ++t)
      request.rows.push_back(random_row(random, trace, t < prompt_rows ? prompt : Phase::decode));
  }
  return trace;
}

inline PlainTrace random_plain_trace(Random& random) {
  PlainSizes sizes{};
  sizes.layers = static_cast<std::uint32_t>(1 + random.below(4));
  sizes.experts = static_cast<std::uint32_t>(1 + random.below(70));
  sizes.top_k = static_cast<std::uint32_t>(1 + random.below(std::min<std::uint64_t>(8, sizes.experts)));
  sizes.requests = static_cast<std::uint32_t>(1 + random.below(6));
  sizes.longest = static_cast<std::uint32_t>(1 + random.below(40));
  sizes.encoder_layers = static_cast<std::uint32_t>(random.below(3) == 0 ? random.below(sizes.layers) : 0);
  return random_plain_trace(random, sizes);
}

}  // namespace moelab::test
