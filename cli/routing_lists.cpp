// moelab laws, moelab traces: the routing that comes with the program.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/list_command.hpp"
#include "cli/wrapped_text.hpp"
#include "models/config_store.hpp"
#include "models/json.hpp"
#include "traces/default_trace.hpp"
#include "traces/law/model_law.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

void list_laws(const ListOptions& options) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows{{"law", "of", "experts", "k", "how well it is known"}};
  std::string sources;
  for (const std::string& name : config_names("laws")) {
    const RoutingLaw law = load_routing_law(name);
    const std::string known = law_title(law);
    rows.push_back({name, law.model, std::to_string(law.experts), std::to_string(law.top_k), known});
    sources += hanging(name + ":", known + "; " + law.provenance, 4, output_width());
    all.push_back({{"name", name},
                   {"model", law.model},
                   {"experts", law.experts},
                   {"top_k", law.top_k},
                   {"layers", law.layers.size()},
                   {"known", known},
                   {"points", law.points},
                   {"source", law.provenance}});
  }
  if (options.format == "json")
    std::cout << all.dump(2) << "\n";
  else
    std::cout << (options.sources ? sources : wrapped_table(rows, output_width()));
}

void list_traces(const ListOptions& options) {
  const RoutingTrace trace = open_routing_trace(kDefaultTrace);
  const std::string what = std::to_string(trace.requests().size()) + " requests, " +
                           std::to_string(trace.tokens()) + " tokens of " + trace.model() + " (" +
                           std::to_string(trace.layers()) + " layers of " + std::to_string(trace.experts()) +
                           " experts, " + std::to_string(trace.top_k()) +
                           " used), a small model of this project's own, with gates and the router's scores "
                           "of all experts. " +
                           trace.provenance();
  if (options.format == "json") {
    const Json row{{"name", kDefaultTrace},       {"what", what},
                   {"model", trace.model()},      {"requests", trace.requests().size()},
                   {"tokens", trace.tokens()},    {"layers", trace.layers()},
                   {"experts", trace.experts()},  {"top_k", trace.top_k()},
                   {"source", trace.provenance()}};
    std::cout << Json::array({row}).dump(2) << "\n";
    return;
  }
  std::cout << wrapped_table({{"trace", "what it is"}, {kDefaultTrace, what}}, output_width()) << "\n"
            << hanging("A", "trace of your own is named by its path; `moelab trace import` makes one.", 0,
                       output_width());
}

}  // namespace

void add_laws(CLI::App& program) {
  add_list(program, "laws",
           "List the laws that routing is drawn from: their model, and how well each is known", list_laws,
           ListSources::on_request);
}
void add_traces(CLI::App& program) {
  add_list(program, "traces", "List the routing traces that come with the program", list_traces);
}

}  // namespace moelab::cli
