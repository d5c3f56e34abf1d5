// moelab.BatchingPolicy.
#include <nanobind/stl/string.h>

#include <span>
#include <stdexcept>

#include "policies/batching/admitted_requests.hpp"
#include "policies/guard/policy_error.hpp"
#include "python/policies/families.hpp"

namespace moelab {
namespace {

nb::object shape_in_python(const BatchingShape& shape) {
  return named("BatchingShape", shape.kv.block_tokens, shape.kv.gpu_blocks, shape.kv.host_blocks,
               shape.kv.state_blocks, shape.kv.shares_beginnings, shape.max_requests, shape.max_tokens,
               shape.micro_batch, shape.drafts);
}

nb::object request_in_python(const BatchRequest& request) {
  nb::list parts;
  for (const TokenPart& part : request.parts) parts.append(named("TokenPart", part.id, part.end));
  return named("BatchRequest", request.id, request.prompt_tokens, request.output_tokens, request.prefilled,
               request.encoded, nb::tuple(parts), request.priority);
}

bool is_true(nb::handle value) {
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

std::uint32_t count_of(nb::handle answer, const char* name) {
  const std::uint64_t number = whole_number(member(answer, "form", name), "form");
  if (number > 0xffffffff)
    throw UnusableAnswer("answers to form() with a number of " + std::to_string(number) + " for '" + name +
                         "'");
  return static_cast<std::uint32_t>(number);
}

StepShare share_of(nb::handle share) {
  return {.request = count_of(share, "request"),
          .tokens = count_of(share, "tokens"),
          .context = count_of(share, "context"),
          .prompt = is_true(member(share, "form", "prompt")),
          .produces = is_true(member(share, "form", "produces"))};
}

void fill_step(nb::handle answer, BatchStep& step) {
  for (const nb::handle share : member(answer, "form", "shares")) {
    step.shares.push_back(share_of(share));
    step.rows += step.shares.back().tokens;
  }
  const auto number = [&](const char* name) { return whole_number(member(answer, "form", name), "form"); };
  step.recomputed = number("recomputed");
  step.blocks_out = number("blocks_out");
  step.blocks_in = number("blocks_in");
  const auto ids = [&](const char* name) { return counts(member(answer, "form", name), "form", {kAny}); };
  step.admitted = ids("admitted");
  step.restarted = ids("restarted");
  step.resumed = ids("resumed");
  step.swapped_out = ids("swapped_out");
  step.dropped = ids("dropped");
  step.finished = ids("finished");
}

class PythonBatching final : public BatchingPolicy {
 public:
  PythonBatching(const PythonPolicy& type, const BatchingShape& shape, const PolicyParameters& parameters) {
    check_shape(shape);
    in_python([&] {
      const nb::object policy = type.make(parameters, shape_in_python(shape));
      misfit_ = Held(policy.attr("misfit"));
      arrive_ = Held(policy.attr("arrive"));
      form_ = Held(policy.attr("form"));
      refuse_ = Held(policy.attr("refuse"));
      complete_ = Held(policy.attr("complete"));
      resize_ = Held(policy.attr("resize"));
      kv_use_ = Held(policy.attr("kv_use"));
    });
  }

  std::string misfit(const BatchRequest& request) const override {
    return in_python([&] {
      const nb::object why = misfit_.get()(request_in_python(request));
      if (!nb::isinstance<nb::str>(why)) throw UnusableAnswer("answers to misfit() with what is no text");
      return nb::cast<std::string>(why);
    });
  }
  void arrive(const BatchRequest& request) override {
    in_python([&] { arrive_.get()(request_in_python(request)); });
  }
  bool form(BatchStep& step) override {
    step = {};
    in_python([&] {
      if (const nb::object answer = form_.get()(); !answer.is_none()) fill_step(answer, step);
    });
    return !step.shares.empty();
  }
  void refuse(std::span<const std::uint32_t> refused) override {
    in_python([&] {
      nb::list tokens;
      for (const std::uint32_t of_share : refused) tokens.append(of_share);
      refuse_.get()(tokens);
    });
  }
  void complete() override {
    in_python([&] { complete_.get()(); });
  }
  void resize(std::uint64_t gpu_blocks) override {
    const KvUse now = use();
    if (gpu_blocks < now.gpu_floor)
      throw std::invalid_argument(std::to_string(now.gpu_floor) +
                                  " blocks are promised, the KV cache cannot shrink to " +
                                  std::to_string(gpu_blocks));
    in_python([&] { resize_.get()(gpu_blocks); });
  }
  KvUse use() const override {
    return in_python([&] {
      const nb::object answer = kv_use_.get()();
      const auto number = [&](const char* name) {
        return whole_number(member(answer, "kv_use", name), "kv_use");
      };
      return KvUse{.gpu_blocks = number("gpu_blocks"),
                   .gpu_floor = number("gpu_floor"),
                   .host_blocks = number("host_blocks"),
                   .running = number("running"),
                   .waiting = number("waiting"),
                   .swapped = number("swapped")};
    });
  }

 private:
  Held misfit_, arrive_, form_, refuse_, complete_, resize_, kv_use_;
};

}  // namespace

BatchingPolicyEntry batching_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .static_batches = type.flag("static_batches"),
          .speculates = type.flag("speculates"),
          .by_priority = [by = type.flag("by_priority")](const PolicyParameters&) { return by; },
          .make = [&type](const BatchingShape& shape,
                          const PolicyParameters& parameters) -> std::unique_ptr<BatchingPolicy> {
            return std::make_unique<PythonBatching>(type, shape, parameters);
          }};
}

}  // namespace moelab
