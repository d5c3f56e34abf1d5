// What run.sh --out writes: its figures against those that follow from its rows, and `moelab report` reads
// it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "cli/report/result_files.hpp"
#include "cli/report/world_results.hpp"
#include "experiments/world/arguments.hpp"
#include "experiments/world/world_document.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::world_document_test {

using namespace moelab::world;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kColumns =
    "id,source,engine,version,model,weights,gpu,gpus,cpu,sockets,memory,offload,batch,prompt,context,metric,"
    "value,unit,grade,notes\n";

/// Rows of three sources: speeds and times, decoding and prompts, with and without a CPU; one of grade C and
/// three that cannot be predicted. Values are made up.
constexpr const char* kRows =
    "a1,one,llama.cpp-cuda,2026,qwen3-30b-a3b,gguf-q4_k_m,rtx-4090-24gb,1,,,,resident,1,512,512,decode,"
    "200,tok/s,A,\n"
    "a2,one,llama.cpp-cuda,2026,gpt-oss-20b,gguf-mxfp4,rtx-3090-24gb,1,,,,resident,1,512,512,decode,90,"
    "tok/s,A,\n"
    "a3,one,llama.cpp-cuda,2026,gpt-oss-20b,gguf-mxfp4,rtx-3090-24gb,1,,,,resident,1,2048,2048,prefill,"
    "1500,tok/s,A,\n"
    "b1,two,vllm,0.9,qwen3-30b-a3b,bf16,a100-80gb,1,,,,resident,1,512,512,tpot_ms,25,ms,A,\n"
    "b2,two,vllm,0.9,qwen3-30b-a3b,bf16,a100-80gb,1,,,,resident,1,2048,2048,ttft_ms,400,ms,B,\n"
    "b3,two,vllm,0.9,qwen3-30b-a3b,bf16,a100-80gb,1,,,,resident,1,512,512,decode,60,,A,\n"
    "c1,three,llama.cpp-cuda,2026,gpt-oss-120b,gguf-mxfp4,rtx-3090-24gb,1,i9-14900K,1,\"ddr5-6800, 2 "
    "channels\",ncmoe=25,1,512,512,decode,20,tok/s,A,\n"
    "c2,three,llama.cpp-cuda,2026,gpt-oss-20b,gguf-mxfp4,rtx-4090-24gb,1,,,,resident,1,512,512,decode,7,"
    "tok/s,C,\n"
    "d1,</script>\xff,lama.cpp,2026,qwen3-30b-a3b,bf16,a100-80gb,1,,,,resident,1,512,512,decode,7,tok/s,A,\n"
    "d2,four,llama.cpp-cuda,2026,qwen3-30b-a3b,bf16,a100-80gb,1,,,,halfway,1,512,512,decode,7,tok/s,A,\n"
    "d3,four,llama.cpp-cuda,2026,qwen3-30b-a3b,bf16,a100-80gb,1,,,,resident,1,512,512,watts,7,W,A,\n";

/// The document as its file holds it.
Json written(const std::string& rows) {
  const test::ScratchFolder folder;
  const std::string file = folder / "points.csv";
  std::ofstream(file) << kColumns << rows;
  const std::vector<Point> points = read_points(file);
  Runtimes runtimes;
  std::vector<PredictedPoint> predicted = predicted_points(points, runtimes);
  predict_apart(predicted, runtimes);
  return Json::parse(document_text(world_document(predicted, {file})));
}

/// A quantile by its definition: the value at rank q (n - 1), between two by the straight line between them.
double quantile_by_hand(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double rank = q * (static_cast<double>(values.size()) - 1);
  const auto below = static_cast<std::size_t>(rank);
  const double low = values[below], high = values[std::min(below + 1, values.size() - 1)];
  return low + (rank - static_cast<double>(below)) * (high - low);
}

struct HandErrors {
  std::vector<double> own, apart, factors, null;
};

/// Of the rows of a document, by group and over all of a phase.
std::map<std::string, HandErrors> errors_by_hand(const Json& document) {
  std::map<std::string, HandErrors> groups;
  for (const Json& row : document["rows"]) {
    if (!row["counted"].get<bool>()) continue;
    const double measured = row["measured"];
    const double apart = row["predicted_source_left_out"];
    for (const std::string& name :
         {row["group"].get<std::string>(), "all " + row["phase"].get<std::string>()}) {
      HandErrors& e = groups[name];
      e.own.push_back(std::abs(row["predicted"].get<double>() - measured) / measured);
      e.apart.push_back(std::abs(apart - measured) / measured);
      e.factors.push_back((apart > measured ? apart / measured : measured / apart) - 1);
      e.null.push_back(std::abs(row["null_model"].get<double>() - measured) / measured);
    }
  }
  return groups;
}

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

Arguments arguments_of(std::vector<std::string> words, bool writes) {
  words.insert(words.begin(), "program");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return read_arguments(static_cast<int>(pointers.size()), pointers.data(), "experiments/world/run.sh",
                        {.writes = writes, .fits = true});
}

std::string refusal_of(const std::vector<std::string>& words, bool writes) {
  try {
    arguments_of(words, writes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string with_single_spaces(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

TEST_CASE("world document: its table of errors is what follows from its rows") {
  const Json document = written(kRows);
  CHECK(document["tolerance"] == 0.3);
  const std::map<std::string, HandErrors> wanted = errors_by_hand(document);
  REQUIRE(document["groups"].size() == wanted.size());
  REQUIRE(wanted.contains("experts on the CPU, decode"));
  for (const Json& group : document["groups"]) {
    const std::string name = group["name"];
    CAPTURE(name);
    REQUIRE(wanted.contains(name));
    const HandErrors& e = wanted.at(name);
    CHECK(group["rows"] == e.own.size());
    CHECK(group["median_error"].get<double>() == Approx(quantile_by_hand(e.own, 0.5)));
    CHECK(group["median_error_source_left_out"].get<double>() == Approx(quantile_by_hand(e.apart, 0.5)));
    CHECK(group["nine_in_ten_factor_less_1"].get<double>() == Approx(quantile_by_hand(e.factors, 0.9)));
    CHECK(group["median_error_null_model"].get<double>() == Approx(quantile_by_hand(e.null, 0.5)));
    const auto near = std::count_if(e.own.begin(), e.own.end(), [](double error) { return error <= 0.3; });
    CHECK(group["within_tolerance"].get<double>() ==
          Approx(static_cast<double>(near) / static_cast<double>(e.own.size())));
  }
  const auto percent_of = [&](const char* name) {
    return std::to_string(std::lround(100 * quantile_by_hand(wanted.at(name).own, 0.5)));
  };
  // Of the eleven rows seven are counted: a1 to c1; five of them decode.
  CHECK(document["answer"] ==
        "Of 11 published measurements 7 are predicted and counted. Predictions of decoding are off by " +
            percent_of("all decode") + " % in the median (5 rows). Predictions of prompts are off by " +
            percent_of("all prefill") +
            " % in the median (2 rows). 4 are shown with the reason why they are not counted.");
}

TEST_CASE("world document: rows are the file's, and say what is counted and why not") {
  const Json document = written(kRows);
  REQUIRE(document["rows"].size() == 11);
  const auto row = [&](const std::string& id) -> Json {
    for (const Json& one : document["rows"])
      if (one["id"] == id) return one;
    return {};
  };
  CHECK(document["files"] == Json::array({"points.csv"}));
  CHECK(row("a1")["measured"] == 200);
  CHECK(row("a1")["unit"] == "tok/s");
  CHECK(row("b3")["unit"] == "tok/s");  // of a metric whose row names none
  CHECK(row("b1")["unit"] == "ms");
  CHECK(row("b1")["phase"] == "decode");
  CHECK(row("b2")["phase"] == "prefill");
  CHECK(row("c1")["group"] == "experts on the CPU, decode");
  CHECK(row("c1")["why_not"].is_null());
  CHECK(row("c2")["predicted"].is_number());  // of grade C: predicted, not counted
  CHECK(row("c2")["counted"] == false);
  CHECK(row("c2")["why_not"].get<std::string>().find("grade C") == 0);
  CHECK(row("d1")["predicted"].is_null());
  CHECK(row("d1")["phase"].is_null());
  CHECK(row("d1")["source"] == "</script>\xef\xbf\xbd");  // a byte that is no UTF-8 becomes U+FFFD
  CHECK(row("d1")["why_not"].get<std::string>().find("no runtime") == 0);
  CHECK(row("d2")["why_not"] == "offload 'halfway' is not known");
  CHECK(row("d3")["why_not"].get<std::string>().find("watts") != std::string::npos);
}

TEST_CASE("world document: it asks what the page of the study asks") {
  const std::string page = with_single_spaces(text_of(MOELAB_SOURCE_DIR "/experiments/world/README.md"));
  CHECK(page.find(written(kRows)["question"].get<std::string>()) != std::string::npos);
}

TEST_CASE("world document: moelab report reads what is written, counted rows or none") {
  for (const std::string& rows :
       {std::string(kRows), std::string(kRows).substr(std::string(kRows).find("d1,"))}) {
    const Json document = written(rows);
    CHECK(problem_of_world(document) == "");
    const test::ScratchFolder folder;
    const std::string file = folder / "world.json";
    std::ofstream(file) << document.dump();
    const Report report = read_result_files({file});
    REQUIRE(report.worlds.size() == 1);
    CHECK(report.worlds[0] == document);
    CHECK(report.question == document["question"]);
    CHECK(report.points.empty());
  }
  const Json none = written(std::string(kRows).substr(std::string(kRows).find("d1,")));
  CHECK(none["groups"].empty());
  CHECK(none["answer"] ==
        "None of 3 published measurements is counted. 3 are shown with the reason why they "
        "are not counted.");
}

TEST_CASE("world document: its file is asked for with --out, of the program that writes one") {
  const Arguments a = arguments_of({"a.csv", "--out", "out/world.json", "b.csv", "--format", "json"}, true);
  CHECK(a.files == std::vector<std::string>{"a.csv", "b.csv"});
  CHECK(a.out == "out/world.json");
  CHECK(a.json);
  CHECK(refusal_of({"--out"}, true).find("--out: expected the name of a file to write") == 0);
  CHECK(refusal_of({"--out", ""}, true).find("--out: expected the name of a file to write") == 0);
  CHECK(refusal_of({"--oud", "x"}, true).find("unexpected argument '--oud' (did you mean '--out'?)") == 0);
  CHECK(refusal_of({"--out", "x.json"}, false).find("unexpected argument '--out'") == 0);
  CHECK(refusal_of({"--\x1b[31m"}, true).find('\x1b') == std::string::npos);
}

TEST_CASE("world document: it is written to no input, and to nothing but a regular file") {
  const test::ScratchFolder folder;
  const std::string input = folder / "points.csv", link = folder / "link.csv", other = folder / "old.json";
  for (const std::string& file : {input, other}) std::ofstream(file) << "x";
  std::filesystem::create_symlink(input, link);
  const auto said = [&](const std::string& out) -> std::string {
    try {
      check_result_file(out, {(folder / "none.csv").string(), input});
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(said("") == "accepted");
  CHECK(said(other) == "accepted");
  CHECK(said((folder / "new.json").string()) == "accepted");
  for (const std::string& same : {input, link}) CHECK(said(same).find("is an input") != std::string::npos);
  CHECK(said("/dev/null").find("is not a regular file") != std::string::npos);
  CHECK(said(folder.path().string()).find("is not a regular file") != std::string::npos);
}

}  // namespace moelab::world_document_test
