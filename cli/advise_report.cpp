#include "cli/advise_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/layer_table.hpp"
#include "cli/name_lists.hpp"
#include "models/json.hpp"
#include "models/machine_profile.hpp"
#include "sim/advise/advice_space.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

/// Two digits that say something, at least.
std::string speed(double per_second) {
  if (per_second < 0.1) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2g", per_second);
    return text.data();
  }
  return fixed(per_second, per_second < 10 ? 1 : 0);
}

/// From the speed over to the speed times (1 + error).
std::string range(double per_second, double error) {
  return speed(per_second / (1 + error)) + " to " + speed(per_second * (1 + error));
}

/// The times of the speeds that range() names, in seconds.
std::string time_range(double seconds, double error) {
  return three_digits(seconds / (1 + error), 1) + " to " + three_digits(seconds * (1 + error), 1);
}

std::string gpus_text(const Advice& a, const AdviceRequest& q) {
  const int all = q.machine.gpus;
  if (all <= 1) return "the GPU";
  if (a.gpus < all) return std::to_string(a.gpus) + " of " + std::to_string(all) + " GPUs";
  return std::to_string(all) + " GPUs";
}

/// Of several GPUs, who has what.
std::string sharing_text(const Advice& a) {
  if (a.gpus <= 1) return "";
  if (a.layers_a_gpu.empty()) return ", each layer shared";
  std::string text = ", ";
  for (std::size_t i = 0; i < a.layers_a_gpu.size(); ++i)
    text += (i > 0 ? " + " : "") + std::to_string(a.layers_a_gpu[i]);
  return text + " layers";
}

std::string place_of(const Advice& a, const AdviceRequest& q) {
  const std::string of_layers = " of " + std::to_string(q.model.layers.size()) + " layers ";
  if (a.split.cpu_only) return "CPU";
  if (a.split.cpu_layers > 0) return std::to_string(a.split.cpu_layers) + of_layers + "on the CPU";
  if (a.split.link_layers > 0)
    return std::to_string(a.split.link_layers) + of_layers + "read from the host by " + gpus_text(a, q) +
           sharing_text(a);
  if (a.split.cpu_expert_layers > 0)
    return "experts of " + std::to_string(a.split.cpu_expert_layers) + " of " +
           std::to_string(q.model.moe_layers().size()) + " layers on the CPU" + sharing_text(a);
  if (a.split.gpu_expert_share < 1)
    return std::to_string(std::lround(a.split.gpu_expert_share * q.model.moe().experts)) + " of " +
           std::to_string(q.model.moe().experts) + " experts a layer on " + gpus_text(a, q);
  return "all on " + gpus_text(a, q) + sharing_text(a);
}

/// "25.54 GB of 25.77 GB": a card of "24 GB" has 24 GiB.
std::string gpu_memory_text(const Advice& a, const AdviceRequest& q) {
  const std::string most = to_string(Bytes(a.gpu_most));
  if (a.split.cpu_only || !q.machine.gpu || q.machine.gpu->unified()) return most;
  return most + " of " + to_string(q.machine.gpu->memory);
}

std::string left_out_text(const AdviseReport& r) {
  std::string text;
  for (const AdviceList::LeftOut& one : r.left_out)
    text +=
        "left out: " + one_line(one.runtime) + (one.weights.empty() ? "" : " with " + one_line(one.weights)) +
        (one.gpus > 0 ? " on " + std::to_string(one.gpus) + " GPUs" : "") + ": " + one_line(one.why) + "\n";
  return text;
}

/// Micro-batches of llama.cpp's ways, where they differ: other runtimes have one each.
bool micro_batches_differ(const std::vector<Advice>& list) {
  double seen = 0;
  for (const Advice& a : list) {
    if (!is_llama(a.family)) continue;
    if (seen > 0 && a.micro_batch != seen) return true;
    seen = a.micro_batch;
  }
  return false;
}

TextTable ways_table(const AdviseReport& r) {
  const AdviceRequest& q = r.request;
  const bool batches = micro_batches_differ(r.list);
  Rows rows{{"runtime", "weights", "where", "bound by: decode, prompt", "decode tok/s", "range", "TTFT s",
             "prompt tok/s", "range", "request s", "-ub", q.machine.gpus > 1 ? "fullest GPU" : "GPU",
             "host"}};
  for (const Advice& a : r.list) {
    const double decode = 1 / a.decode_s, prompt = q.prompt / a.prompt_s;
    rows.push_back({one_line(a.runtime), one_line(a.weights), place_of(a, q),
                    a.bound_word + ", " + a.prompt_bound_word, speed(decode), range(decode, a.error.decode),
                    three_digits(a.prompt_s, 1), speed(prompt), range(prompt, a.error.prefill),
                    three_digits(a.request_s, 1),
                    batches && is_llama(a.family) ? fixed(a.micro_batch, 0) : "", gpu_memory_text(a, q),
                    to_string(Bytes(a.memory.host_total()))});
  }
  return {.rows = std::move(rows), .left = 4};
}

/// Of each runtime, its first way of four bits and more and its first of fewer.
std::vector<const Advice*> first_of_each(const std::vector<Advice>& list) {
  std::vector<const Advice*> first;
  for (const Advice& a : list)
    if (std::none_of(first.begin(), first.end(), [&](const Advice* f) {
          return f->runtime == a.runtime && f->few_bits() == a.few_bits();
        }))
      first.push_back(&a);
  return first;
}

/// Each with what it starts.
std::string commands(const AdviseReport& r) {
  std::string text;
  for (const Advice* a : first_of_each(r.list)) {
    if (a->command.empty()) continue;
    text += "# " + one_line(a->title + ", " + a->weights) + "\n" + one_line(a->command) + "\n";
  }
  return text;
}

/// What to know of the commands.
std::string notes_of_commands(const AdviseReport& r) {
  std::string text;
  for (const Advice* a : first_of_each(r.list))
    if (!a->caveat.empty())
      text += "caveat: " + one_line(a->runtime + " with " + a->weights + ": " + a->caveat) + "\n";
  std::vector<std::string> said;  // once of weights that several take
  for (const Advice* a : first_of_each(r.list)) {
    if (a->weights_from.empty() || std::ranges::find(said, a->weights) != said.end()) continue;
    said.push_back(a->weights);
    text += one_line(a->runtime + "'s " + a->weights + ": " + a->weights_from) + ".\n";
  }
  return text;
}

/// Programs alike with the same weights, whose speeds are not told apart by their ranges.
std::string not_known_text(const AdviseReport& r) {
  const Advice& best = r.list.front();
  std::vector<std::string> others;
  for (const Advice& a : r.list)
    if (a.runtime != best.runtime && a.weights == best.weights && is_llama(a.family) &&
        is_llama(best.family) && a.decode_s / (1 + a.error.decode) < best.decode_s * (1 + best.error.decode))
      others.push_back(one_line(a.title) + " (" + range(1 / a.decode_s, a.error.decode) + ")");
  if (others.empty()) return "";
  return " Whether it is faster than " + joined_by_and(others) +
         " with the same weights is not known: their ranges overlap.";
}

/// "llama.cpp (CUDA) with gguf-mxfp4, 30 tokens/s a user (18 to 50)"
std::string named_with_speed(const Advice& a, const std::string& between = "") {
  const double rate = 1 / a.decode_s;
  return one_line(a.title + " with " + a.weights) + ", " + speed(rate) + " tokens/s a user" + between + " (" +
         range(rate, a.error.decode) + ")";
}

/// What fewer bits would bring, where there are ways of either kind, or fewer than the first has.
std::string fewer_text(const AdviseReport& r) {
  const auto fewer = std::ranges::find_if(r.list, &Advice::few_bits);
  if (fewer == r.list.end()) return "";
  const auto last = std::ranges::min_element(fewer, r.list.end(), {}, &Advice::decode_s);
  if (fewer == r.list.begin())
    return last == fewer || !r.request.weights.empty()
               ? ""
               : " With fewer still it is " + named_with_speed(*last) + ".";
  return " With fewer bits, whose answers are worse, it is " + named_with_speed(*fewer) +
         (last->weights == fewer->weights ? "" : ", up to " + named_with_speed(*last)) + ".";
}

/// The first paragraph: what to take, and how fast it is.
std::string answer_text(const AdviseReport& r) {
  const AdviceRequest& q = r.request;
  const Advice& best = r.list.front();
  const std::string fewer = fewer_text(r);
  const bool another_faster = std::ranges::any_of(
      r.list, [&](const Advice& a) { return a.few_bits() == best.few_bits() && a.decode_s < best.decode_s; });
  const bool most_bits = best.few_bits() && q.weights.empty();
  const std::string kind = most_bits
                               ? "the most bits that have room are served fastest by"
                               : std::string("fastest") + (another_faster ? " of what is known to run" : "") +
                                     (fewer.empty() ? "" : " with 4 bits and more") + " is";
  return one_line(q.model.title + " on " + q.machine.title()) + ": " + kind + " " +
         named_with_speed(best, " with " + fixed(q.context, 0) + " tokens of context filled") +
         ", bound by " + best.bound + "." +
         (best.caveat.empty() ? "" : " But " + one_line(best.caveat) + ".") + not_known_text(r) + fewer +
         " A prompt of " + fixed(q.prompt, 0) + " tokens alone has its first token after " +
         three_digits(best.prompt_s, 1) + " s (" + time_range(best.prompt_s, best.error.prefill) +
         "), bound by " + best.prompt_bound + ".\n";
}

/// What fewer than four bits a weight cost that no speed says.
std::string few_bits_text(const AdviseReport& r) {
  if (std::none_of(r.list.begin(), r.list.end(), [](const Advice& a) { return a.few_bits(); })) return "";
  std::string text;
  if (!r.lacks_of_four_bits.empty())
    text = "No weights of 4 bits and more have room: " + one_line(r.lacks_of_four_bits) + ". ";
  if (!r.four_bits_with_q8_0_cache.empty())
    text += "Beside a KV cache of about half the size (--kv q8_0) llama.cpp would have room for " +
            one_line(r.four_bits_with_q8_0_cache) + ". ";
  return text +
         "Quality: below 4 bits a weight a model's answers get worse, the more the fewer the bits; by how "
         "much "
         "is not predicted here.\n";
}

/// What the way takes that has most on a GPU: "the above".
Bytes most_on_a_gpu(const AdviseReport& r) {
  double most = 0;
  for (const Advice& a : r.list) most = std::max(most, a.memory.gpu());
  return Bytes(most);
}

/// What macOS lets the GPU take, and how that is raised to what the ways need, or as far as the system's
/// reserve allows.
std::string mac_text(const AdviseReport& r) {
  const MachineParts& machine = r.request.machine;
  const std::optional<Bytes> share = machine.gpu_share_of_ram();
  if (!share) return "";
  const Bytes most = most_on_a_gpu(r), needed = std::max(most, *machine.usable_ram());
  const std::string text = " macOS lets the GPU take " + to_string(*share) + " of it (" +
                           (machine.ram->value() < kMacShares.large_from ? "2/3" : "3/4") +
                           "; newer versions of macOS give more of a large memory)";
  if (needed <= *share) return text + ".";
  if (most > *share)
    return text + ": `" + raised_limit_command(most) + "` has to give it what the above take.";
  return text + ": `" + raised_limit_command(needed) + "` raises that, and --budget says so here.";
}

/// What Linux lets a GPU of AMD take, and how that is raised to what the ways need, or to what may be used.
std::string gtt_text(const AdviseReport& r) {
  const MachineParts& machine = r.request.machine;
  const std::optional<Bytes> share = machine.gtt_share_of_ram();
  if (!share) return "";
  const Bytes most = most_on_a_gpu(r);
  const std::string text = " Linux lets the GPU take " + to_string(*share) +
                           " of it where nothing is set (half, beside what the firmware keeps for it)";
  if (most > *share)
    return text + ": the above take up to " + to_string(most) + ", which `" + raised_gtt_parameter(most) +
           "` on the kernel's command line gives it (older kernels: `amdgpu.gttsize=" +
           fixed(std::ceil(most.value() / 0x1p20), 0) + "`).";
  return text + ".";
}

/// What the model may have of the host's memory, where its size is known.
std::string memory_text(const AdviseReport& r) {
  const AdviceRequest& q = r.request;
  const MachineParts& machine = q.machine;
  std::string text;
  if (machine.ram)
    text += "Memory: of the host's " + to_string(*machine.ram) + ", " + to_string(Bytes(kSystemReserve)) +
            " are kept for the operating system and other programs (a rule for all machines), " +
            to_string(*machine.usable_ram()) + " may be used." + mac_text(r) + gtt_text(r);
  if (q.budget)
    text += (text.empty() ? "Memory: the" : " The") + std::string(" budget of ") +
            (machine.gpu && !machine.gpu->unified() ? "each GPU is " : "the host's memory is ") +
            to_string(*q.budget) + ".";
  if (const std::string slot = machine.slot_note(); !slot.empty() && r.policies)
    text += (text.empty() ? "SSD: " : " SSD: ") + one_line(slot) + ".";
  return text.empty() ? text : text + "\n";
}

std::string answers_text(const PolicyTrial& trial) {
  return trial.substituted > 0 ? fixed(100 * trial.substituted, 1) + " % of experts replaced"
                               : std::string("the model's");
}

/// What the table of policies has no numbers of, and why.
std::string unknown_text(const PolicyTrials& p) {
  const bool some =
      std::any_of(p.rows.begin(), p.rows.end(), [](const auto& t) { return t.why_not.empty() && t.ttft_s; });
  const std::string why =
      "a prompt's time is that of the experts that its tokens share, and synthetic routing is drawn for "
      "tokens, not for prompts";
  return (some ? "TTFT -: not known, since " + why +
                     "; where the policy is the runtime's own it is that of the first table."
               : "TTFT is not known: " + why + ".") +
         " No published runs say how far off the tokens behind a prompt are. (`moelab run` prints a TTFT of "
         "such "
         "routing too, with the same reservation.)\n";
}

void add_policies(const PolicyTrials& p, const AdviceRequest& q, TextReport& text) {
  text.add_lines("What other policies would do, simulated on " + one_line(p.runtime) + " with " +
                 one_line(p.weights) +
                 (p.gpus > 1 ? ", each layer shared by " + std::to_string(p.gpus) + " GPUs," : "") +
                 " under synthetic routing:\n");
  if (!p.why_none.empty()) {
    text.join_next();
    return text.add_lines("nothing: " + one_line(p.why_none) + "\n");
  }
  Rows rows{{"policy", "answers", "TPOT ms", "tokens/s a user", "tokens/s", "TTFT s"}};
  for (const PolicyTrial& t : p.rows)
    if (t.why_not.empty())
      rows.push_back({one_line(t.title), answers_text(t), fixed(1e3 * t.tpot_s, 1), speed(1 / t.tpot_s),
                      speed(q.users / t.tpot_s), t.ttft_s ? three_digits(*t.ttft_s, 1) : "-"});
  std::string below = rows.size() > 1 ? unknown_text(p) : "";
  for (const PolicyTrial& t : p.rows)
    if (!t.why_not.empty()) below += "left out: " + one_line(t.system + ": " + t.why_not) + "\n";
  text.add_table({.rows = std::move(rows), .left = 2});
  text.join_next();
  text.add_lines(below);
}

Json error_json(double error, double per_second) {
  return {{"share", error}, {"low", per_second / (1 + error)}, {"high", per_second * (1 + error)}};
}

Json way_json(const Advice& a, const AdviceRequest& q) {
  const double decode = 1 / a.decode_s, prompt = q.prompt / a.prompt_s;
  return {{"runtime", a.runtime},
          {"weights", a.weights},
          {"bits_a_weight", a.weight_bits},
          {"where", place_of(a, q)},
          {"gpus", a.gpus},
          {"layers_a_gpu", a.layers_a_gpu},
          {"cpu_only", a.split.cpu_only},
          {"cpu_layers", a.split.cpu_layers},
          {"link_layers", a.split.link_layers},
          {"cpu_expert_layers", a.split.cpu_expert_layers},
          {"gpu_expert_share", a.split.gpu_expert_share},
          {"micro_batch", a.micro_batch},
          {"decode_tokens_per_s", decode},
          {"prompt_s", a.prompt_s},
          {"request_s", a.request_s},
          {"prompt_tokens_per_s", prompt},
          {"group", a.error.name},
          {"decode_range", error_json(a.error.decode, decode)},
          {"prompt_range", error_json(a.error.prefill, prompt)},
          {"gpu_bytes", a.memory.gpu()},
          {"fullest_gpu_bytes", a.gpu_most},
          {"gpu_expert_bytes", a.memory.gpu_experts},
          {"gpu_weights_bytes", a.memory.gpu_weights},
          {"gpu_kv_bytes", a.memory.gpu_kv},
          {"gpu_compute_bytes", a.memory.gpu_compute},
          {"gpu_context_bytes", a.memory.gpu_context},
          {"gpu_reserve_bytes", a.memory.gpu_reserve},
          {"host_bytes", a.memory.host_total()},
          {"host_weights_bytes", a.memory.host},
          {"host_compute_bytes", a.memory.host_compute},
          {"bound", a.bound},
          {"prompt_bound", a.prompt_bound},
          {"command", a.command},
          {"caveat", a.caveat.empty() ? Json(nullptr) : Json(a.caveat)},
          {"weights_from", a.weights_from.empty() ? Json(nullptr) : Json(a.weights_from)}};
}

Json policies_json(const PolicyTrials& p, const AdviceRequest& q) {
  Json rows = Json::array();
  for (const PolicyTrial& t : p.rows) {
    Json row = {{"system", t.system}, {"title", t.title}};
    if (t.why_not.empty())
      row.update({{"tpot_s", t.tpot_s},
                  {"tpot_range", nullptr},  // no published runs say how far off it is
                  {"ttft_s", t.ttft_s ? Json(*t.ttft_s) : Json(nullptr)},  // prompts are not simulated
                  {"tokens_per_s_a_user", 1 / t.tpot_s},
                  {"tokens_per_s", q.users / t.tpot_s},
                  {"substituted_share", t.substituted}});
    else
      row["why_not"] = t.why_not;
    rows.push_back(std::move(row));
  }
  return {{"simulated", true},    {"routing", "synthetic"},
          {"runtime", p.runtime}, {"weights", p.weights},
          {"gpus", p.gpus},       {"why_none", p.why_none.empty() ? Json(nullptr) : Json(p.why_none)},
          {"systems", rows}};
}

std::string curve_name(const AdviceCurve& curve, int gpus, const AdviceRequest& q) {
  const std::string name = curve.runtime + ", " + curve.weights;
  if (gpus == 0 && q.machine.gpu) return name + ", the CPU alone";
  return q.machine.gpus > 1 && gpus < q.machine.gpus ? name + ", " + std::to_string(gpus) + " of the GPUs"
                                                     : name;
}

}  // namespace

std::string advise_text(const AdviseReport& r, const TextForm& form) {
  TextReport text(form);
  if (r.list.empty()) {
    text.add_lines(one_line(r.request.model.title + " on " + r.request.machine.title()) +
                   ": nothing that runtimes offer fits (" + one_line(r.lacks) +
                   "). What the memory cannot hold comes from the SSD below" +
                   (r.request.machine.ssd
                        ? ""
                        : ", which is taken to be a " + std::string(kUnnamedSsd) + ": --ssd names another") +
                   ".\n");
    if (r.policies) add_policies(*r.policies, r.request, text);
    text.add_lines(memory_text(r));
    return text.text();
  }
  text.add_lines(answer_text(r));
  text.add_lines(few_bits_text(r));
  text.add_table(ways_table(r));
  text.add_lines(left_out_text(r));
  text.add_picture(commands(r));
  text.add_lines(notes_of_commands(r));
  if (r.policies) add_policies(*r.policies, r.request, text);
  text.add_lines(
      memory_text(r) +
      "From data sheets and each runtime's constants, fitted and assumed (moelab runtimes). TTFT: time to "
      "the "
      "first token of a prompt that comes alone; request: that and an answer of " +
      fixed(r.request.answer, 0) +
      " tokens, which splits and micro-batches are chosen by. Ranges are what nine in ten published runs of "
      "the same kind stayed within, of all versions; constants were set with them in view. Of ways whose "
      "ranges overlap it is not known which is faster: rows that disagree are in experiments/world.\n");
  return text.text();
}

std::string advise_json(const AdviseReport& r) {
  const AdviceRequest& q = r.request;
  Json ways = Json::array();
  for (const Advice& a : r.list) ways.push_back(way_json(a, q));
  Json all = {{"model", q.model.name},
              {"machine", q.machine.title()},
              {"prompt_tokens", q.prompt},
              {"answer_tokens", q.answer},
              {"context_tokens", q.context},
              {"users", q.users},
              {"ways", ways}};
  if (!r.list.empty()) all["answer"] = {{"text", answer_text(r)}};
  if (q.machine.ram) all["usable_ram_bytes"] = q.machine.usable_ram()->value();
  if (const auto share = q.machine.gpu_share_of_ram()) all["gpu_share_of_ram_bytes"] = share->value();
  if (const auto share = q.machine.gtt_share_of_ram()) all["gtt_share_of_ram_bytes"] = share->value();
  if (const std::string slot = q.machine.slot_note(); !slot.empty()) all["notes"] = {slot};
  if (q.budget) all["budget_bytes"] = q.budget->value();
  if (ways.empty()) all["lacks"] = r.lacks;
  if (!r.lacks_of_four_bits.empty()) all["lacks_of_four_bits"] = r.lacks_of_four_bits;
  if (!r.four_bits_with_q8_0_cache.empty()) all["four_bits_with_q8_0_cache"] = r.four_bits_with_q8_0_cache;
  Json left_out = Json::array();
  for (const AdviceList::LeftOut& one : r.left_out)
    left_out.push_back({{"runtime", one.runtime},
                        {"weights", one.weights.empty() ? Json(nullptr) : Json(one.weights)},
                        {"gpus", one.gpus > 0 ? Json(one.gpus) : Json(nullptr)},
                        {"why_not", one.why}});
  all["left_out"] = std::move(left_out);
  if (r.policies) all["policies"] = policies_json(*r.policies, q);
  return json_text(all);
}

plot::Figure advise_figure(const AdviseReport& r) {
  const AdviceRequest& q = r.request;
  plot::Panel panel{.title = "Decoding, a user",
                    .x = {.label = "GPU memory given to experts", .unit = "B"},
                    .y = {.label = "tokens/s"}};
  for (const AdviceCurve& curve : decode_curves(q, r.list)) {
    for (int gpus = 0; gpus <= q.machine.gpus; ++gpus) {
      plot::Series series{.name = curve_name(curve, gpus, q)};
      for (const AdviceCurve::Point& point : curve.points) {
        if (point.gpus != gpus) continue;
        series.x.push_back(point.gpu_expert_bytes);
        series.y.push_back(1 / point.decode_s);
      }
      if (series.x.size() == 1) series.mark = plot::Mark::dots;
      if (!series.x.empty()) panel.series.push_back(std::move(series));
    }
  }
  plot::Series advised{.name = "advised", .mark = plot::Mark::dots};
  for (const Advice* a : first_of_each(r.list)) {
    advised.x.push_back(a->memory.gpu_experts);
    advised.y.push_back(1 / a->decode_s);
    advised.notes.push_back(a->command);
  }
  panel.series.push_back(std::move(advised));
  return {.title = q.model.title + " on " + q.machine.title(),
          .caption = "predicted from data sheets and each runtime's constants; every split that fits, " +
                     fixed(q.context, 0) + " tokens of context" +
                     (q.users > 1 ? ", " + fixed(q.users, 0) + " users" : ""),
          .panels = {panel},
          .panel_width = 640,
          .panel_height = 360};
}

}  // namespace moelab::cli
