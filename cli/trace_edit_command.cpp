// moelab trace slice, relabel, merge, sample: traces made of others.
#include <iostream>
#include <map>
#include <memory>

#include "cli/commands.hpp"
#include "cli/trace_import_options.hpp"
#include "models/input_error.hpp"
#include "traces/default_trace.hpp"
#include "traces/trace_edit.hpp"

namespace moelab::cli {
namespace {

const std::map<std::string, Phase> kPhaseNames{
    {"encoder", Phase::encoder}, {"prefill", Phase::prefill}, {"decode", Phase::decode}};

struct TraceEditArguments {
  std::string trace, out, requests, tokens, layers, model;
  std::vector<std::string> traces;
  Phase from = Phase::prefill, to = Phase::decode;
  bool has_from = false;
  std::uint64_t count = 0, seed = 1;
};

/// "3:7" is 3, 4, 5, 6; either side may be left out; one number is that one.
NumberRange range_of(const std::string& option, const std::string& text) {
  const auto fail = [&]() -> NumberRange {
    throw InputError(option + " " + text,
                     "expected BEGIN:END, numbers from 0 of which END is no longer in it, such as "
                     "0:100, 50: or :10, or one number");
  };
  const auto number = [&](const std::string& digits) -> std::uint64_t {
    if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos)
      fail();
    return std::stoull(digits);
  };
  if (text.empty()) return {};
  const std::size_t colon = text.find(':');
  NumberRange range;
  if (colon == std::string::npos) {
    range.begin = number(text);
    range.end = range.begin + 1;
  } else {
    if (colon > 0) range.begin = number(text.substr(0, colon));
    if (colon + 1 < text.size()) range.end = number(text.substr(colon + 1));
  }
  if (range.begin >= range.end) fail();
  return range;
}

std::string quoted_range(const char* what, const std::string& range) {
  return range.empty() ? std::string() : std::string(" ") + what + " " + range;
}

void write_and_say(const TraceEditArguments& o, const RoutingTrace& trace, const TraceEdit& edit,
                   const std::string& how) {
  check_outputs({o.out}, {o.trace});
  std::cout << o.out << ": " << write_edited(trace, o.trace, edit, how, o.out) << " tokens\n";
}

bool has_rows(const RoutingTrace& trace, Phase phase) {
  for (std::uint64_t token = 0; token < trace.tokens(); ++token)
    if (trace.phase_of(token) == phase) return true;
  return false;
}

CLI::App* add_edit(CLI::App& trace, const char* name, const char* help,
                   const std::shared_ptr<TraceEditArguments>& options) {
  CLI::App* command = trace.add_subcommand(name, help);
  command->add_option("FILE", options->trace, "Routing trace (traces/README.md)")->required();
  command->add_option("--out", options->out, "File to write")->required()->check(names_a_file);
  return command;
}

void add_slice(CLI::App& trace) {
  const auto options = std::make_shared<TraceEditArguments>();
  CLI::App* command = add_edit(trace, "slice", "Keep some requests, tokens or layers of a trace", options);
  command->add_option("--requests", options->requests, "Requests BEGIN:END by number, from 0, without END");
  command->add_option("--tokens", options->tokens, "Rows BEGIN:END of each request, counted from its first");
  command->add_option("--layers", options->layers, "MoE layers BEGIN:END");
  add_example(*command,
              "moelab trace slice routing.safetensors --requests 0:100 --layers 3:10 --out part.safetensors");
  command->callback([options] {
    const TraceEditArguments& o = *options;
    if (o.requests.empty() && o.tokens.empty() && o.layers.empty())
      throw InputError("trace slice", "needs --requests, --tokens or --layers: what to keep");
    const TraceEdit edit{.requests = range_of("--requests", o.requests),
                         .layers = range_of("--layers", o.layers),
                         .tokens = range_of("--tokens", o.tokens)};
    write_and_say(o, open_routing_trace(o.trace), edit,
                  "sliced:" + quoted_range("requests", o.requests) + quoted_range("tokens", o.tokens) +
                      quoted_range("layers", o.layers));
  });
}

void add_relabel(CLI::App& trace) {
  const auto options = std::make_shared<TraceEditArguments>();
  CLI::App* command =
      add_edit(trace, "relabel",
               "Give the rows of a phase another one: a recorder that had no decode rows, say", options);
  command
      ->add_option_function<std::string>(
          "--from",
          [options](const std::string& name) {
            options->from = kPhaseNames.at(name);
            options->has_from = true;
          },
          "Rows of this phase: encoder, prefill, decode; without it, all rows")
      ->check(CLI::IsMember({"encoder", "prefill", "decode"}));
  add_choice(*command, "--to", options->to, kPhaseNames, "What they become")->required();
  add_example(*command,
              "moelab trace relabel routing.safetensors --from prefill --to decode --out decode.safetensors");
  command->callback([options] {
    const TraceEditArguments& o = *options;
    TraceEdit edit;
    const RoutingTrace whole = open_routing_trace(o.trace);
    if (o.has_from) edit.from = o.from;
    edit.to = o.to;
    const auto name = [](Phase phase) {
      for (const auto& [text, value] : kPhaseNames)
        if (value == phase) return text;
      return std::string();
    };
    if (o.has_from && !has_rows(whole, o.from))
      throw InputError(o.trace, "has no row of phase '" + name(o.from) + "' to relabel (--from)");
    write_and_say(o, whole, edit, (o.has_from ? name(o.from) : "all") + " rows relabelled " + name(o.to));
  });
}

void add_sample(CLI::App& trace) {
  const auto options = std::make_shared<TraceEditArguments>();
  CLI::App* command =
      add_edit(trace, "sample", "Keep some requests of a trace, drawn by chance, in their order", options);
  command->add_option("--requests", options->count, "How many")
      ->required()
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  command->add_option("--seed", options->seed, "The same seed keeps the same requests")
      ->check(is_a_seed)
      ->capture_default_str();
  add_example(*command,
              "moelab trace sample routing.safetensors --requests 50 --seed 1 --out some.safetensors");
  command->callback([options] {
    const TraceEditArguments& o = *options;
    const RoutingTrace whole = open_routing_trace(o.trace);
    if (o.count > whole.requests().size())
      throw InputError("--requests " + std::to_string(o.count),
                       "must be at most the trace's: " + o.trace + " has " +
                           std::to_string(whole.requests().size()) + " requests");
    TraceEdit edit;
    edit.chosen = sample_of(whole.requests().size(), o.count, o.seed);
    write_and_say(o, whole, edit,
                  std::to_string(o.count) + " of " + std::to_string(whole.requests().size()) +
                      " requests sampled with seed " + std::to_string(o.seed));
  });
}

void add_merge(CLI::App& trace) {
  const auto options = std::make_shared<TraceEditArguments>();
  CLI::App* command =
      trace.add_subcommand("merge", "Put the requests of several traces together, file after file");
  command
      ->add_option("FILES", options->traces,
                   "Routing traces of one form: layers, experts, experts a token, scores")
      ->required()
      ->expected(2, 1 << 20);
  command->add_option("--model", options->model,
                      "Identity of the model, where the files name different ones");
  command->add_option("--out", options->out, "File to write")->required()->check(names_a_file);
  add_example(*command, "moelab trace merge monday.safetensors tuesday.safetensors --out week.safetensors");
  command->callback([options] {
    const TraceEditArguments& o = *options;
    check_outputs({o.out}, o.traces);
    std::vector<RoutingTrace> traces;
    for (const std::string& file : o.traces) traces.push_back(open_routing_trace(file));
    std::cout << o.out << ": " << write_merged(traces, o.traces, o.model, o.out) << " tokens of "
              << traces.size() << " traces\n";
  });
}

}  // namespace

void add_trace_edit(CLI::App& trace) {
  add_slice(trace);
  add_relabel(trace);
  add_merge(trace);
  add_sample(trace);
}

}  // namespace moelab::cli
