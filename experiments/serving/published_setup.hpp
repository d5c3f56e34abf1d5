// A published run in this program's terms: a scenario of one system, and the requests that it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/serving/published_points.hpp"
#include "models/part.hpp"
#include "sim/scenario.hpp"

namespace moelab::published {

/// What a server does by itself.
struct EngineDefaults {
  std::uint64_t max_tokens = 0;    // of a step (SGLang: of a step of prompts)
  std::uint64_t max_requests = 0;  // that run at once
  double memory_share = 0;         // of what the driver shows of a GPU's memory, for weights and KV cache
  bool async = false;              // vLLM: a step is formed while the one before it runs
  double sampling_bytes = 0;       // of each GPU, for a word of the vocabulary: a trial step's sampling
};
/// By runtime, version, GPU and number of GPUs. Throws InputError for a runtime that is neither of the two.
EngineDefaults engine_defaults(const ServingPoint& point, const GpuPart& gpu);

/// Tokens of each request's prompt and answer.
struct RequestLengths {
  std::uint32_t prompt = 1, output = 1;
};
/// Of the row's requests, the same ones each time. Uniform and exponential lengths are spread evenly over
/// their distributions; where the row has the tokens of all requests together, lengths are scaled to these.
/// ShareGPT's lengths are taken as exponential: the median answer of published runs of one user at a time is
/// 0.71 and 0.73 of the mean (of an exponential one 0.69).
std::vector<RequestLengths> lengths_of(const ServingPoint& point);

struct ServingQuestion {
  std::optional<Scenario> scenario;  // with the requests as its log, which come when the front end is done
  std::vector<double> sent_s;        // when each is sent; empty: when the one before it is answered
  std::string why_not;               // not empty: it cannot be said, and what cannot
};
ServingQuestion serving_question(const ServingPoint& point);

}  // namespace moelab::published
