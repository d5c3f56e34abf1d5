#include "traces/trace_edit.hpp"

#include <algorithm>
#include <map>

#include "models/input_error.hpp"
#include "traces/random.hpp"
#include "traces/routing_trace_writer.hpp"
#include "traces/trace_rows.hpp"

namespace moelab {
namespace {

/// The range within `all` things called `what`; refused where it begins beyond them or is empty.
NumberRange within(const NumberRange& range, std::uint64_t all, const std::string& what,
                   const std::string& name) {
  const NumberRange cut{range.begin, std::min(range.end, all)};
  if (range.begin >= all || cut.begin >= cut.end)
    throw InputError("--" + what + " " + std::to_string(range.begin) + ":" +
                         (range.end > all ? std::string() : std::to_string(range.end)),
                     "keeps none: " + name + " has " + what + " 0 to " + std::to_string(all - 1));
  return cut;
}

/// The phases of a request never fall.
void check_order(Phase before, Phase now, const std::string& name, std::uint64_t request,
                 std::uint64_t token) {
  if (now >= before) return;
  throw InputError(
      name, "request " + std::to_string(request) + ", token " + std::to_string(token) +
                " would have an earlier phase than the token before it; phases come in the order "
                "encoder, prefill, decode. Relabel the phases after it too, or all of them (without --from)");
}

std::string differing(const TraceDescription& a, const TraceDescription& b) {
  const auto numbers = [](const char* what, std::uint64_t first, std::uint64_t second) {
    return first == second
               ? std::string()
               : "has " + std::to_string(second) + " " + what + ", and the first " + std::to_string(first);
  };
  for (const std::string& text :
       {numbers("layers", a.layers, b.layers), numbers("experts a layer", a.experts, b.experts),
        numbers("experts a token", a.top_k, b.top_k),
        numbers("candidates with router scores", a.candidates, b.candidates)})
    if (!text.empty()) return text;
  if (a.gate_scores != b.gate_scores || a.router_scores != b.router_scores || a.lookahead != b.lookahead)
    return "has other kinds of scores than the first: gate scores, router scores and lookahead are in all "
           "traces or in "
           "none";
  return {};
}

/// Kinds of prompts of all traces, and which of them each trace's are.
struct MergedDomains {
  std::vector<std::string> names;
  std::vector<std::vector<std::uint16_t>> of_trace;

  MergedDomains(const std::vector<RoutingTrace>& traces, const std::vector<std::string>& files) {
    const bool any = std::any_of(traces.begin(), traces.end(),
                                 [](const RoutingTrace& t) { return !t.description().domains.empty(); });
    std::map<std::string, std::uint16_t> number;
    for (std::size_t i = 0; i < traces.size(); ++i) {
      std::vector<std::string> own = traces[i].description().domains;
      if (own.empty() && any) own = {files[i]};
      of_trace.emplace_back();
      for (const std::string& domain : own) {
        const auto [at, is_new] = number.emplace(domain, static_cast<std::uint16_t>(names.size()));
        if (is_new) names.push_back(domain);
        if (names.size() > 65535) throw InputError(files[i], "makes more than 65535 different domains");
        of_trace.back().push_back(at->second);
      }
      if (own.empty()) of_trace.back().push_back(0);
    }
  }
};

/// All files and what they say of themselves; once where it is the same of all.
std::string merged_provenance(const std::vector<RoutingTrace>& traces, const std::vector<std::string>& names,
                              bool synthetic) {
  const std::string& first = traces.front().provenance();
  if (std::all_of(traces.begin(), traces.end(),
                  [&](const RoutingTrace& t) { return t.provenance() == first; }))
    return first + (first.empty() ? "" : "; ") + std::to_string(traces.size()) + " files merged";
  std::string text = synthetic ? "synthetic: merged from" : "merged from";
  for (std::size_t i = 0; i < traces.size(); ++i)
    text += (i > 0 ? "; " : " ") + names[i] + " (" + traces[i].provenance() + ")";
  return text;
}

}  // namespace

std::uint64_t write_edited(const RoutingTrace& trace, const std::string& name, const TraceEdit& edit,
                           const std::string& how, const std::filesystem::path& out) {
  const NumberRange requests = within(edit.requests, trace.requests().size(), "requests", name);
  const NumberRange layers = within(edit.layers, trace.layers(), "layers", name);
  std::vector<std::uint64_t> kept = edit.chosen;
  for (std::uint64_t r = requests.begin; edit.chosen.empty() && r < requests.end; ++r) kept.push_back(r);
  TraceDescription about = trace.description();
  about.layers = static_cast<std::uint32_t>(layers.end - layers.begin);
  about.provenance += (about.provenance.empty() ? "" : "; ") + how;
  if (about.synthetic && about.provenance.rfind("synthetic", 0) != 0)
    about.provenance = "synthetic: " + about.provenance;
  RoutingTraceWriter writer(out, about);
  TraceRows rows(trace, static_cast<std::uint32_t>(layers.begin), static_cast<std::uint32_t>(layers.end));
  for (const std::uint64_t r : kept) {
    const TraceRequest& request = trace.requests()[r];
    const std::uint64_t length = request.end - request.begin;
    const std::uint64_t begin = request.begin + std::min(edit.tokens.begin, length);
    const std::uint64_t end = request.begin + std::min(edit.tokens.end, length);
    if (begin >= end && length > 0) continue;  // shorter than where the tokens that are kept begin
    writer.begin_request(trace.domain_of(r));
    Phase before = Phase::encoder;
    for (std::uint64_t t = begin; t < end; ++t) {
      TraceRow row = rows.row(t);
      if (edit.to && (!edit.from || *edit.from == row.phase)) row.phase = *edit.to;
      check_order(before, row.phase, name, r, t - request.begin);
      before = row.phase;
      writer.add_token(row);
    }
    trace.release_rows(request.begin, request.end);
  }
  if (writer.tokens() == 0) throw InputError(name, "has no tokens in what was asked for; nothing is written");
  writer.finish();
  return writer.tokens();
}

std::uint64_t write_merged(const std::vector<RoutingTrace>& traces, const std::vector<std::string>& names,
                           const std::string& model, const std::filesystem::path& out) {
  const MergedDomains domains(traces, names);
  TraceDescription about = traces.front().description();
  about.domains = domains.names;
  if (!model.empty()) about.model = model;
  for (std::size_t i = 1; i < traces.size(); ++i) {
    const TraceDescription& other = traces[i].description();
    const std::string difference = differing(traces.front().description(), other);
    if (!difference.empty())
      throw InputError(names[i],
                       difference + " (" + names.front() + "); only traces of one form can be merged");
    if (model.empty() && other.model != about.model)
      throw InputError(names[i], "is of the model '" + other.model + "', and " + names.front() + " of '" +
                                     about.model + "'; if they are the same, name it with --model");
    about.synthetic = about.synthetic || other.synthetic;
  }
  about.provenance = merged_provenance(traces, names, about.synthetic);
  RoutingTraceWriter writer(out, about);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    TraceRows rows(traces[i]);
    for (std::size_t r = 0; r < traces[i].requests().size(); ++r) {
      const TraceRequest& request = traces[i].requests()[r];
      writer.begin_request(domains.of_trace[i][traces[i].domain_of(r)]);
      for (std::uint64_t t = request.begin; t < request.end; ++t) writer.add_token(rows.row(t));
      traces[i].release_rows(request.begin, request.end);
    }
  }
  writer.finish();
  return writer.tokens();
}

std::vector<std::uint64_t> sample_of(std::uint64_t all, std::uint64_t count, std::uint64_t seed) {
  // Selection sampling: each number is taken with the chance of what is wanted among what is left (Knuth, The
  // Art of Computer Programming 2, 3.4.2, Algorithm S).
  std::vector<std::uint64_t> chosen;
  Random random(seed);
  for (std::uint64_t i = 0; i < all && chosen.size() < count; ++i)
    if (random.below(all - i) < count - chosen.size()) chosen.push_back(i);
  return chosen;
}

}  // namespace moelab
