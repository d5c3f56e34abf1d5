// moelab experiments: the studies in experiments/, which hold the simulator against papers and measurements.
#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/list_command.hpp"
#include "cli/wrapped_text.hpp"
#include "models/json.hpp"

namespace moelab::cli {
namespace {

struct Experiment {
  const char *name, *question, *takes, *command;  // folder of experiments/; how long on two processors
};

/// Each folder's page asks the question in these words; a test compares them.
constexpr std::array<Experiment, 10> kExperiments{{
    {"claims",
     "Which figures of the four papers come out when each row is set up as its paper, its published code and "
     "its arithmetic say that it was run?",
     "4 min", "experiments/claims.sh"},
    {"codecs",
     "An expert that is kept in memory can be kept in full, or compressed: then 1.35 to 1.5 times as many "
     "fit, and each use costs a decompression. Which of ZipMoE's cache policies is fastest on the Orin with "
     "LZ4HC, Zstd 1, and this project's zstd-literals and fixed3 (hw/codec)?",
     "30 s", "experiments/codecs/run.sh"},
    {"contention",
     "The executor `fast` slows what runs together by measured factors; `simgrid` shares capacities. How far "
     "are the times of a token apart?",
     "1 min", "experiments/contention/run.sh"},
    {"fluxmoe",
     "When does it pay to give the experts' memory to the KV cache? What of the FluxMoE paper (Liu et al. "
     "2026) comes out of its algorithms and of what is known about its node of four L40?",
     "2 min", "experiments/fluxmoe/run.sh"},
    {"load",
     "Real vLLM servers were given 300 requests at 10 a second, and wrote down when each request was queued, "
     "got its first token and its last. How near does this project come to these times from data sheets, and "
     "how near from kernels that were timed on the cards?",
     "1 s", "experiments/load/run.sh FOLDER"},
    {"prism",
     "What of the Prism paper (Wu et al., arXiv 2508.12851) comes out of its algorithms and of what is known "
     "about its testbed: which placement is fastest, what migration brings, how it scales?",
     "2 min", "experiments/prism/run.sh"},
    {"serving",
     "vLLM's and SGLang's makers and users publish what their servers do under load: requests and tokens a "
     "second, times to the first token and a token. How near does this project come to those figures from "
     "data sheets and the runtime's constants?",
     "1 min", "experiments/serving/run.sh"},
    {"smoe",
     "What of the SMoE paper (Zhu et al. 2025, arXiv 2508.18983) comes out of its algorithms and of what is "
     "known about its boards?",
     "4 min", "experiments/smoe/run.sh"},
    {"world",
     "People publish how fast MoE models decode and prefill on their machines, in the runtimes that they "
     "use. How near does this project come to those figures from data sheets and few constants for each "
     "runtime?",
     "2 min", "experiments/world/run.sh experiments/world/collected.csv"},
    {"zipmoe",
     "What of the ZipMoE paper (Yang et al., ICML 2026, arXiv 2601.21198) comes out when its rows are set up "
     "as its authors ran them, by their published scripts (github.com/npnothard/ZipMoE-ICML26), and what "
     "hangs on how paper and code are read?",
     "2 min", "experiments/zipmoe/run.sh"},
}};

void list_experiments(const ListOptions& options) {
  if (options.format == "json") {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Experiment& e : kExperiments)
      all.push_back({{"name", e.name},
                     {"question", e.question},
                     {"takes", e.takes},
                     {"command", e.command},
                     {"page", "experiments/" + std::string(e.name) + "/README.md"}});
    std::cout << all.dump(2) << "\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{{"experiment", "takes", "question"}};
  for (const Experiment& e : kExperiments) rows.push_back({e.name, e.takes, e.question});
  const std::size_t width = output_width();
  std::cout << wrapped_table(rows, width) << "\n"
            << hanging("They",
                       "run from a checkout of the sources: experiments/NAME/run.sh, of claims "
                       "experiments/claims.sh. The answer and its tables are in experiments/NAME/README.md.",
                       0, width);
}

}  // namespace

void add_experiments(CLI::App& program) {
  add_list(program, "experiments", "List the studies that hold moelab against papers and measurements",
           list_experiments);
}

}  // namespace moelab::cli
