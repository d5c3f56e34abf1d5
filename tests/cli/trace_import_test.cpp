// The import commands of traces/import/README.md, run as they stand there on the public sets where those are,
// and compared with what the sets' descriptions say; and import and export as a user meets them.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/cli/run_program.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::trace_import_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

const std::string kSource = MOELAB_SOURCE_DIR;

// Every line of the README that begins with the program's name.
std::vector<std::vector<std::string>> readme_commands() {
  std::ifstream readme(kSource + "/traces/import/README.md");
  std::vector<std::vector<std::string>> commands;
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("moelab ", 0) != 0) continue;
    std::istringstream words(line);
    commands.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
    commands.back().erase(commands.back().begin());
  }
  return commands;
}

/// The program's folder, while it lives.
class Here {
 public:
  explicit Here(const std::filesystem::path& folder) { std::filesystem::current_path(folder); }
  ~Here() { std::filesystem::current_path(before_); }
  Here(const Here&) = delete;
  Here& operator=(const Here&) = delete;

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

std::map<std::string, std::string> public_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().filename().string()] = entry.path().string();
  }
  return files;
}

}  // namespace

TEST_CASE("the README's import commands make what the public sets hold", "[long]") {
  const std::filesystem::path data = kSource + "/../shared/data";
  if (!std::filesystem::is_directory(data)) {
    WARN("skipped: no folder " << data);
    return;
  }
  const auto files = public_files(data);
  const ScratchFolder folder;
  // Amounts from the sets' PROVENANCE.md.
  const std::map<std::string, std::string> due{
      {"gptoss.safetensors", "130606 tokens"},
      {"gptoss-scored.safetensors", "37867 tokens"},
      {"gemma4.safetensors", "4 prompts, 30 layers, 128 experts"},
      {"mixtral-subjects.safetensors", "57 prompts, 32 layers, 8 experts"},
      {"olmoe.safetensors", "3 layers, 64 experts"},
      {"mooncake-conversation.csv", "12031 requests"},
      {"mooncake-synthetic.csv", "3993 requests"},
      {"azure-code.csv", "8819 requests"},
      {"azure-conversation.csv", "19366 requests"},
      {"arxiv.csv", "28257 requests"},
      {"sharegpt.csv", "300 requests"}};
  const auto commands = readme_commands();
  REQUIRE(commands.size() == 16);
  for (std::vector<std::string> command : commands) {
    const std::string out = command.back();
    for (std::string& word : command) {
      const auto file = files.find(word);
      if (file != files.end()) word = file->second;
    }
    command.back() = (folder / out).string();
    const ProgramResult result = run_program(MOELAB_PROGRAM, command);
    INFO(out << ": " << result.err);
    REQUIRE(result.status == 0);
    const auto amount = due.find(out);
    if (amount != due.end()) CHECK_THAT(result.out, Contains(amount->second));
  }
  // The first line of the set: 46926808,2361,532, in nanoseconds.
  CHECK_THAT(read_bytes(folder / "sharegpt.csv"), Contains("\n0.046926808,2361,532\n"));
  // PROVENANCE.md of the set: an expert of a token was used by the token before with probability 0.44.
  const RoutingTrace trace = read_routing_trace(folder / "gptoss.safetensors");
  REQUIRE(trace.requests().size() == 360);
  double kept = 0, all = 0;
  for (const TraceRequest& request : trace.requests()) {
    for (std::uint64_t token = request.begin + 1; token < request.end; ++token) {
      for (std::uint32_t layer = 0; layer < trace.layers(); ++layer) {
        const auto before = trace.experts_of(token - 1, layer);
        for (const std::uint16_t id : trace.experts_of(token, layer)) {
          kept += std::count(before.begin(), before.end(), id) > 0 ? 1 : 0;
          ++all;
        }
      }
    }
  }
  CHECK(kept / all == Approx(0.44).margin(0.005));
}

TEST_CASE("import and export from the command line") {
  const ScratchFolder folder;
  write_bytes(folder / "t.csv", "t,l,e\n0,0,2 1\n0,1,0 3\n1,0,1 0\n1,1,3 2\n");
  const std::string in = (folder / "t.csv").string(), out = (folder / "t.safetensors").string();
  const std::vector<std::string> import{"trace",     "import",  "csv",   in,         "--token",
                                        "t",         "--layer", "l",     "--expert", "e",
                                        "--experts", "4",       "--out", out};
  ProgramResult result = run_program(MOELAB_PROGRAM, import);
  CHECK(result.err.empty());
  REQUIRE(result.status == 0);
  const std::string one =
      "all tokens are one request: no column says which request a row is of; where there are several, "
      "expected its name in --request\n";
  const std::string no_prompts =
      "no row is a prompt's, all are of the phase decode, so that a run's TTFT is of one generated token; "
      "where "
      "there are prompts, expected --phase, or --all-phases prefill\n";
  CHECK(result.out == out + ": 2 tokens\n" + no_prompts + one);
  // With the column, here the token's too, it has nothing to say.
  std::vector<std::string> with_column = import;
  with_column.insert(with_column.end(), {"--request", "t"});
  CHECK(run_program(MOELAB_PROGRAM, with_column).out == out + ": 2 tokens\n" + no_prompts);
  with_column.insert(with_column.end(), {"--all-phases", "prefill"});
  CHECK(run_program(MOELAB_PROGRAM, with_column).out == out + ": 2 tokens, 2 of them of prompts\n");
  CHECK(read_routing_trace(out).description().provenance == "imported from \"t.csv\"");
  const std::string csv = (folder / "a.csv").string();
  result =
      run_program(MOELAB_PROGRAM, {"trace", "export", out, "--kind", "csv", "--layer", "1", "--out", csv});
  REQUIRE(result.status == 0);
  // Objects are layer * 4 + expert; expert 3 of layer 1 is used by both tokens.
  CHECK(read_bytes(csv) == "time,object,size,next_access\n0,4,1,-1\n0,7,1,4\n1,6,1,-1\n1,7,1,-1\n");
  result =
      run_program(MOELAB_PROGRAM, {"trace", "export", out, "--kind", "csv", "--layer", "2", "--out", csv});
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("the trace has the layers 0 to 1"));
}

TEST_CASE("a name that no line of JSON has is told the nearest that it has") {
  const ScratchFolder folder;
  write_bytes(folder / "t.jsonl", R"({"token": 0, "response": {"experts": [[2, 1], [0, 3]]}})"
                                  "\n");
  const auto import = [&](const std::string& name) {
    return run_program(MOELAB_PROGRAM,
                       {"trace", "import", "jsonl", (folder / "t.jsonl").string(), "--token", "token",
                        "--expert", name, "--experts", "4", "--out", (folder / "t.safetensors").string()});
  };
  CHECK_THAT(import("response.expert").err,
             Contains("has no 'response.expert' (did you mean 'response.experts'?)"));
  CHECK(import("response.experts").status == 0);
}

TEST_CASE("as many experts as a trace can hold are imported") {
  const ScratchFolder folder;
  write_bytes(folder / "t.csv", "t,l,e\n0,0,65534 7\n");
  const auto import = [&](const std::string& experts) {
    return run_program(MOELAB_PROGRAM,
                       {"trace", "import", "csv", (folder / "t.csv").string(), "--token", "t", "--layer", "l",
                        "--expert", "e", "--experts", experts, "--out", (folder / "out").string()});
  };
  REQUIRE(import("65535").status == 0);
  CHECK(read_routing_trace(folder / "out").experts() == 65535);
  CHECK(import("65536").status == 2);
  CHECK(import("0").status == 2);
}

TEST_CASE("outputs: bare names are of files here, links stay, inputs are kept") {
  const ScratchFolder folder;
  const Here here(folder / "");
  const std::string table = "t,l,e\n0,0,2 1\n1,0,1 0\n";
  write_bytes(folder / "t.csv", table);
  const auto import = [](const std::string& out) {
    return run_program(MOELAB_PROGRAM, {"trace", "import", "csv", "t.csv", "--token", "t", "--layer", "l",
                                        "--expert", "e", "--experts", "4", "--out", out});
  };
  CHECK_THAT(import("t.safetensors").out, Catch::Matchers::StartsWith("t.safetensors: 2 tokens\n"));
  const std::string trace = read_bytes(folder / "t.safetensors");
  std::filesystem::copy(folder / "t.csv", folder / "t\xff.csv");
  CHECK(run_program(MOELAB_PROGRAM, {"trace", "import", "csv", "t\xff.csv", "--token", "t", "--layer", "l",
                                     "--expert", "e", "--experts", "4", "--out", "t\xff"})
            .status == 0);
  // The file behind a link, even one that is not there yet.
  std::filesystem::create_symlink("behind", folder / "link");
  std::filesystem::create_symlink("link", folder / "link to link");
  CHECK(import("link to link").status == 0);
  CHECK(read_bytes(folder / "behind") == trace);
  CHECK(std::filesystem::is_symlink(folder / "link to link"));

  const auto refused = [](const ProgramResult& result, const std::string& why) {
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains(why));
  };
  refused(import("t.csv"), "t.csv: is an input");
  std::filesystem::create_symlink("t.csv", folder / "input");
  refused(import("input"), "input: is an input");
  refused(run_program(MOELAB_PROGRAM,
                      {"trace", "export", "t.safetensors", "--kind", "csv", "--out", "./t.safetensors"}),
          "./t.safetensors: is an input");
  refused(run_program(MOELAB_PROGRAM, {"trace", "import", "npy", "ids.npy", "--scores", "t.csv", "--experts",
                                       "4", "--out", "t.csv"}),
          "t.csv: is an input");
  refused(run_program(MOELAB_PROGRAM, {"trace", "import-requests", "lengths", "t.csv", "--out", "t.csv"}),
          "t.csv: is an input");
  // One of the files that a pattern means.
  std::filesystem::create_directory(folder / "parts");
  for (const char* part : {"parts/a.csv", "parts/b.csv"})
    std::filesystem::copy(folder / "t.csv", folder / part);
  refused(run_program(MOELAB_PROGRAM, {"trace", "import", "csv", "parts/?.csv", "--token", "t", "--layer",
                                       "l", "--expert", "e", "--experts", "4", "--out", "parts/b.csv"}),
          "parts/b.csv: is an input");
  CHECK(read_bytes(folder / "parts/b.csv") == table);
  CHECK(read_bytes(folder / "t.csv") == table);
  CHECK(read_bytes(folder / "t.safetensors") == trace);

  std::filesystem::create_symlink("circle", folder / "circle");
  refused(import("circle"), "circle: symbolic links lead in a circle");
  refused(import(std::string(300, 'a')), "cannot be written: File name too long");
  refused(import(""), "--out: expected the name of a file");
}

TEST_CASE("a failed import leaves the file that was there and nothing else") {
  const ScratchFolder folder;
  write_bytes(folder / "t.csv", "t,l,e\n0,0,2 1\n1,0,9 0\n");
  write_bytes(folder / "out", "old");
  const ProgramResult result = run_program(
      MOELAB_PROGRAM, {"trace", "import", "csv", (folder / "t.csv").string(), "--token", "t", "--layer", "l",
                       "--expert", "e", "--experts", "4", "--out", (folder / "out").string()});
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("t.csv:3:5: expert 9 is out of range: there are 4 experts, from 0"));
  CHECK(read_bytes(folder / "out") == "old");
  CHECK(folder.names().size() == 2);
}

TEST_CASE("trace import-requests: options that a kind has no use for are refused") {
  const ScratchFolder folder;
  write_bytes(folder / "log.csv", "arrival_s,prompt_tokens,output_tokens\n0,3,4\n1,2,2\n");
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    std::vector<std::string> words = {"trace", "import-requests",
                                      "log",   (folder / "log.csv").string(),
                                      "--out", (folder / "out.csv").string()};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_program(MOELAB_PROGRAM, words);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains(why));
  };
  refused({"--arrival", "arrival_s"}, "--arrival: is of kind 'lengths' alone");
  refused({"--skip-failed"}, "--skip-failed: leaves out requests without output");
  refused({"--skip", "-1"}, "--skip: expected a number from 0");
  refused({"--turn-gap", "5"}, "--turn-gap: is of kind 'sharegpt' alone");
  refused({"--characters-per-token", "0"}, "--characters-per-token: expected a number from 0.1");
  CHECK(folder.names().size() == 1);
}

TEST_CASE("trace import-requests: of conversations what their file does not say is said") {
  const ScratchFolder folder;
  write_bytes(
      folder / "s.json",
      "[{\"id\": \"a\", \"conversations\": [{\"from\": \"human\", \"value\": \"12345678\"}, {\"from\": "
      "\"gpt\", \"value\": \"1234\"}, {\"from\": \"human\", \"value\": \"1234\"}, {\"from\": \"gpt\", "
      "\"value\": \"12345678\"}]}]");
  const ProgramResult result = run_program(
      MOELAB_PROGRAM, {"trace", "import-requests", "sharegpt", (folder / "s.json").string(), "--out",
                       (folder / "s.csv").string(), "--characters-per-token", "4", "--turn-gap", "30"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out, Contains("s.csv: 2 requests\n") && Contains("of 1 conversation;") &&
                             Contains("a token is taken to be 4 characters") &&
                             Contains("turns come 30 s apart"));
  CHECK(read_bytes(folder / "s.csv") ==
        "arrival_s,prompt_tokens,output_tokens,shared_tokens,shared_with\n0,2,1,0,0\n30,4,2,3,0\n");
}

TEST_CASE("trace import counts: a scale that is no number above 0 is refused") {
  for (const char* scale : {"nan", "inf", "0", "-1", "ten"}) {
    const ProgramResult result = run_program(
        MOELAB_PROGRAM, {"trace", "import", "counts", "c.csv", "--layer", "layer", "--expert", "expert",
                         "--count", "count", "--out", "c.safetensors", "--scale", scale});
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.err.find("--scale") != std::string::npos);
  }
}

}  // namespace moelab::trace_import_test
