// moelab trace generate: a synthetic trace from a fitted law.
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "cli/terminal_line.hpp"
#include "models/architecture.hpp"
#include "models/input_error.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/routing_trace_writer.hpp"

namespace moelab::cli {
namespace {

struct TraceGenerateArguments {
  std::string law, model, out;
  std::uint64_t tokens = 0, seed = 1;
  std::int64_t prompt_tokens = -1, decode_tokens = -1;
  bool router_scores = false;
};

/// The law's mean lengths, or those asked for.
std::array<std::uint64_t, 3> rows_of(const RoutingLaw& law, const TraceGenerateArguments& options) {
  const auto rows = [](std::int64_t asked, double mean) {
    return static_cast<std::uint64_t>(asked >= 0 ? asked : std::llround(mean));
  };
  const std::uint64_t prompt = rows(options.prompt_tokens, law.prompt_tokens);
  const std::uint64_t decode = rows(options.decode_tokens, law.decode_tokens);
  if (prompt + decode == 0)
    throw InputError(options.law, "its requests have no tokens; give --prompt-tokens or --decode-tokens");
  if (law.has_encoder() && prompt == 0)
    throw InputError("--prompt-tokens", "an encoder-decoder needs at least 1");
  return law.has_encoder() ? std::array<std::uint64_t, 3>{prompt, 0, decode}
                           : std::array<std::uint64_t, 3>{0, prompt, decode};
}

void generate(const TraceGenerateArguments& options) {
  check_outputs({options.out}, {options.law});
  RoutingLaw law = read_routing_law(options.law);
  if (!options.model.empty()) {
    const Architecture model = load_architecture(options.model);
    if (model.moe_layers().empty()) throw InputError("--model " + options.model, "has no MoE layers");
    law = law_for_model(law, model);
  }
  if (options.router_scores && !law.has_gates())
    throw InputError(options.law, "the law has no gates, so there are no router scores");
  const LawGenerator generator(law, options.seed, options.router_scores);
  const std::array<std::uint64_t, 3> rows = rows_of(law, options);
  std::uint64_t left = options.tokens, requests = 0;
  const auto next = [&]() -> std::optional<DrawnRequest> {  // the last one ends with the last token
    if (left == 0) return {};
    DrawnRequest request{.number = requests, .domain = generator.domain_of(requests), .rows = rows};
    for (std::uint64_t& part : request.rows) {
      part = std::min(part, left);
      left -= part;
    }
    ++requests;
    return request;
  };
  RoutingTraceWriter writer(options.out, generator.description());
  TerminalLine line;
  draw_requests(
      law, options.seed, options.router_scores, next,
      [&](const DrawnRequest& request) {
        writer.begin_request(request.domain);
        line.show("generate: " + std::to_string(writer.tokens()) + " of " + std::to_string(options.tokens) +
                  " tokens");
      },
      [&](const TraceRow& row) { writer.add_token(row); });
  writer.finish();
  line.clear();
  std::cout << options.out << ": " << options.tokens << " tokens of " << requests << " requests, synthetic\n";
}

}  // namespace

void add_trace_generate(CLI::App& trace) {
  const auto options = std::make_shared<TraceGenerateArguments>();
  CLI::App* command = trace.add_subcommand("generate", "Draw a synthetic trace from a law that was fitted");
  command->add_option("LAW", options->law, "Law, as 'moelab trace fit' writes it")->required();
  command->add_option("--model", options->model,
                      "Model whose layers, experts and k it is for (see 'moelab models'); those of the law");
  command->add_option("--tokens", options->tokens, "Rows in all")
      ->required()
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command
      ->add_option("--prompt-tokens", options->prompt_tokens, "Prompt rows a request; the recording's mean")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  command
      ->add_option("--decode-tokens", options->decode_tokens, "Decode rows a request; the recording's mean")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  command->add_option("--seed", options->seed, "The same seed draws the same trace")
      ->check(is_a_seed)
      ->capture_default_str();
  command->add_flag("--router-scores", options->router_scores, "With the logits of all experts");
  command->add_option("--out", options->out, "File to write")->required()->check(names_a_file);
  add_example(
      *command,
      "moelab trace generate law.yaml --model deepseek-v2-lite --tokens 100000 --out synthetic.safetensors");
  command->callback([options] { generate(*options); });
}

}  // namespace moelab::cli
