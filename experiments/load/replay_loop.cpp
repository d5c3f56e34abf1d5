#include "experiments/load/replay_loop.hpp"

#include <stdexcept>

#include "sim/serving/kv_plan.hpp"
#include "sim/serving/request_stream.hpp"

namespace moelab::replay {
namespace {

/// When each request got its first and its last token.
class Answers final : public GraphObserver {
 public:
  explicit Answers(std::vector<ReplayedRequest>& requests) : requests_(requests) {}
  void finished(const LabelledGraph&, std::uint64_t, std::int32_t) override {}
  void answered(const ServedSpan& span) override {
    requests_.at(span.request) = {span.first_token_s, span.end_s};
  }

 private:
  std::vector<ReplayedRequest>& requests_;
};

}  // namespace

Replay serve_again(const Setup& setup, StepTimes& times) {
  const std::vector<ServedRequest> requests = served_requests(setup.scenario, setup.trace);
  const auto batching = make_batching(setup.scenario, setup.system(), setup.memory);
  ListedRequests source(requests);
  RequestStream stream(source, setup.trace, *batching);
  Replay out;
  out.requests.resize(requests.size());
  Answers answers(out.requests);
  Metrics counted;
  Pass pass;
  double now = 0;
  for (;;) {
    if (!stream.next(now, pass)) {
      if (!stream.next_arrival()) break;
      now = std::max(now, *stream.next_arrival());
      continue;
    }
    const KvUse use = batching->use();
    const double end = now + times.seconds(pass);
    out.steps.push_back(
        {now, end, pass.produces, pass.prompt_tokens, use.running, use.waiting, use.gpu_blocks});
    out.preempted += stream.step().dropped.size();
    out.recomputed_tokens += stream.step().recomputed;
    now = end;
    stream.complete(now, counted, &answers);
  }
  if (const KvUse use = batching->use(); use.running + use.waiting > 0)
    throw std::logic_error("requests wait for a KV cache that nothing will free");
  return out;
}

}  // namespace moelab::replay
