// moelab report: what tells results apart, what the page holds, and files that are no results.
#include <catch2/catch.hpp>
#include <filesystem>

#include "cli/report/report.hpp"
#include "cli/report/request_records.hpp"
#include "cli/report/result_files.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/report_refusals.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::report_test {
namespace {

using Json = nlohmann::ordered_json;
using Axes = std::vector<std::pair<std::string, std::string>>;
using Strings = std::vector<std::string>;

Json a_result(const std::string& system, int seed, const Strings& settings = {}) {
  Json result = {{"scenario", "small"},     {"system", system}, {"executor", "fast"},          {"seed", seed},
                 {"question", "How fast?"}, {"model", "tiny"},  {"metrics", {{"ttft_s", 1.5}}}};
  for (const std::string& setting : settings) result["provenance"].push_back("set for this run: " + setting);
  return result;
}

std::string file_of(const test::ScratchFolder& folder, const std::string& name, const std::string& text) {
  const std::string path = folder / name;
  test::write_bytes(path, text);
  return path;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

/// As `moelab load --out` writes it: one system at two rates, one seed each.
Json a_load() {
  Json points;
  for (const double rate : {1.0, 2.0}) {
    Json seed = {{"seed", 1},
                 {"refusal", nullptr},
                 {"throughput_requests_per_s", rate},
                 {"throughput_tokens_per_s", 10 * rate},
                 {"met_share", 1.0},
                 {"goodput_requests_per_s", rate}};
    for (const char* key :
         {"ttft_s", "tpot_s", "itl_s", "end_to_end_s", "normalised_latency_s", "queueing_s"})
      seed[key] = {{"mean", 0.1}, {"p50", 0.1}, {"p90", 0.2}, {"p95", 0.25}, {"p99", nullptr}};
    points.push_back({{"rate_per_s", rate}, {"verdict", "steady"}, {"seeds", Json::array({seed})}});
  }
  const Json clause = {{"latency", "ttft"}, {"quantile", 0.9}, {"limit_s", 2.0}};
  return {{"load_format", 1},
          {"scenario", "small"},
          {"question", "How many?"},
          {"version", "1"},
          {"model", "tiny"},
          {"device", "box"},
          {"requests", 40},
          {"seeds", 1},
          {"arrivals", "poisson"},
          {"level", {{"text", "ttft p90 < 2 s"}, {"share", nullptr}, {"clauses", Json::array({clause})}}},
          {"systems", Json::array({{{"system", "vllm"}, {"best_rate_per_s", 2.0}, {"points", points}}})}};
}

/// What the page holds as data.
std::string data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script>", at) - at);
}

}  // namespace

TEST_CASE("report: axes are what tells results apart") {
  const test::ScratchFolder folder;
  const std::string one = file_of(
      folder, "one.json",
      Json({a_result("lru", 1, {"budget = 16 GB", "workload.batch = 2"}), a_result("lfu", 1)}).dump());
  const std::string two =
      file_of(folder, "two.json", a_result("lru", 2, {"workload.batch = 2", "seed = 2"}).dump());
  const Report report = read_result_files({one, two});
  CHECK(report.title == "small");
  CHECK(report.question == "How fast?");
  REQUIRE(report.points.size() == 3);
  // budget splits the first from the others, batch the second from the third; so the seed tells nothing more.
  CHECK(report.points[0].axes == Axes{{"budget", "16 GB"}, {"workload.batch", "2"}});
  CHECK(report.points[1].axes ==
        Axes{{"budget", "as in the scenario"}, {"workload.batch", "as in the scenario"}});
  CHECK(report.points[2].axes == Axes{{"budget", "as in the scenario"}, {"workload.batch", "2"}});
  CHECK(report.points[2].series == "lru");
  CHECK(report.points[1].result == a_result("lfu", 1));

  // What was not set for a run is what the scenario in its result has there: a value, or the name of a model.
  Json with_scenario = a_result("lru", 1);
  with_scenario["inputs"]["scenario"] = {{"budget", "20 GB"},
                                         {"model", {{"name", "gpt-oss-20b"}, {"layers", 24}}},
                                         {"workload", {{"batch", 4}}}};
  const std::string scenario = file_of(folder, "scenario.json", with_scenario.dump());
  const std::string set =
      file_of(folder, "set.json",
              a_result("lru", 1, {"budget = 16 GB", "model = olmoe-1b-7b", "workload.batch = 2"}).dump());
  const Report named = read_result_files({set, scenario});
  CHECK(named.points[1].axes == Axes{{"budget", "20 GB"}});
  const std::string model = file_of(folder, "model.json", a_result("lru", 1, {"model = olmoe-1b-7b"}).dump());
  CHECK(read_result_files({model, scenario}).points[1].axes == Axes{{"model", "gpt-oss-20b"}});
  const std::string batch = file_of(folder, "batch.json", a_result("lru", 1, {"workload.batch = 2"}).dump());
  CHECK(read_result_files({batch, scenario}).points[1].axes == Axes{{"workload.batch", "4"}});

  // Repeats differ in their seed; with the same seed too, only the file is left.
  const std::string first = file_of(folder, "first.json", a_result("lru", 1).dump());
  const std::string again = file_of(folder, "again.json", a_result("lru", 1).dump());
  const std::string other = file_of(folder, "other.json", a_result("lru", 7).dump());
  CHECK(read_result_files({first, other}).points[1].axes == Axes{{"seed", "7"}});
  CHECK(read_result_files({first, again}).points[1].axes == Axes{{"file", "again.json"}});
  CHECK(read_result_files({first}).points[0].axes.empty());
}

TEST_CASE("report: names that look like HTML stay data") {
  const std::string hostile = "</script><script>alert(1)</script><!--";
  Json result = a_result(hostile, 1);
  result["warnings"] = {hostile, "{{data}}"};
  const Report report{hostile, "\xff{{data}}", {{{{hostile, hostile}}, hostile, result}}};
  const std::string page = report_html(report);
  CHECK(!contains(page, "<script>alert"));
  CHECK(count(page, "</script>") == 3);  // the data, Vega, the page's own
  const Json data = Json::parse(data_of(page));
  CHECK(data["title"] == hostile);
  CHECK(data["question"] == "\xef\xbf\xbd{{data}}");  // a byte that is no UTF-8 becomes U+FFFD
  CHECK(data["points"][0]["axes"][0] == Json({hostile, hostile}));
  CHECK(data["points"][0]["result"] == result);
  CHECK(report_html(report) == page);
}

TEST_CASE("report: a system that knows the future or tries every order is an oracle, and no other is") {
  const auto is_oracle = [](const Json& systems) {
    Json result = a_result("x", 1);
    result["inputs"]["scenario"]["systems"] = systems;
    const Json data = Json::parse(data_of(report_html({"t", "", {{{}, "x", result}}})));
    return data["points"][0]["oracle"].get<bool>();
  };
  const auto with = [](const char* family, const Json& policy) {
    return Json::array({Json{{"name", "x"}, {family, {{"policy", policy}}}}});
  };
  CHECK(is_oracle(with("cache", "belady")));
  CHECK(is_oracle(with("schedule", "exhaustive")));
  CHECK_FALSE(is_oracle(with("cache", "lru")));
  CHECK_FALSE(is_oracle(with("cache", "of-a-library")));
  CHECK_FALSE(is_oracle(with("cache", 3)));
  CHECK_FALSE(is_oracle(with("prefetch", "belady")));  // a name that is of another family
  for (const Json& odd : {Json(), Json(3), Json::array(), Json::object(), Json::array({"belady"})})
    CHECK_FALSE(is_oracle(odd));
}

TEST_CASE("report: the page loads nothing and allows its own scripts only") {
  const std::string page = report_html({"t", "", {}});
  CHECK(contains(page, "default-src 'none'; script-src 'sha256-"));
  CHECK(!contains(page.substr(0, page.find("<style>")), "unsafe-eval"));
  for (const char* outside : {" src=", "<link", "@import", "url(", "fetch(\"http"})
    CHECK(!contains(page.substr(0, page.find("<script")), outside));
  CHECK(!contains(page, "{{"));
  CHECK(contains(page, "BSD-3-Clause"));
  CHECK(contains(page, "UW Interactive Data Lab"));
}

TEST_CASE("report: files that are no results are named, with what was expected") {
  const test::ScratchFolder folder;
  const auto errors_of = [&](const std::string& text) {
    return refusal_of(file_of(folder, "bad.json", text));
  };
  Json without = a_result("lru", 1);
  without.erase("metrics");
  Json fraction = a_result("lru", 1);
  fraction["seed"] = 1.5;
  CHECK(contains(errors_of(""), "is not JSON"));
  CHECK(contains(errors_of("{\"scenario\": 1e999}"), "is not JSON"));
  CHECK(contains(errors_of("3"),
                 "is number, not an object; expected a result as 'moelab run --out' writes it"));
  CHECK(contains(errors_of("[]"), "is an empty array"));
  CHECK(contains(errors_of("{}"), "has no text 'scenario'"));
  CHECK(contains(errors_of(without.dump()), "has no object 'metrics'"));
  CHECK(contains(errors_of(fraction.dump()), "has no whole number 'seed'"));
  CHECK(contains(errors_of(Json({a_result("lru", 1), without}).dump()), "element 2 has no object 'metrics'"));
  CHECK(contains(errors_of(std::string(100'000, '[')), "nests deeper than 64 levels"));
  CHECK(contains(errors_of(a_result("lru", 1).dump() + "x"), "is not JSON"));
}

TEST_CASE("report: curves over the request rate stand beside results") {
  const test::ScratchFolder folder;
  const std::string run = file_of(folder, "run.json", a_result("lru", 1).dump());
  const std::string load = file_of(folder, "load.json", a_load().dump());
  const Report both = read_result_files({run, load});
  CHECK(both.points.size() == 1);
  REQUIRE(both.loads.size() == 1);
  CHECK(both.loads[0] == a_load());
  const Report alone = read_result_files({load});
  CHECK(alone.points.empty());
  CHECK(alone.title == "small");
  CHECK(alone.question == "How many?");
  Json hostile = a_load();
  hostile["systems"][0]["system"] = hostile["level"]["text"] = "</script><script>alert(1)</script>";
  const std::string page = report_html({"t", "", {}, {hostile}});
  CHECK(count(page, "</script>") == 3);  // the data, Vega, the page's own
  CHECK(Json::parse(data_of(page))["loads"] == Json::array({hostile}));
}

/// As `moelab run --requests` writes one.
Json a_request(std::size_t number) {
  return {{"system", "vllm"},     {"seed", 1},          {"request", number},  {"server", nullptr},
          {"arrival_s", number},  {"started_s", 1.5},   {"first_token_s", 2}, {"end_s", 3.5},
          {"prompt_tokens", 100}, {"output_tokens", 4}, {"preempted", 0}};
}

TEST_CASE("report: requests stand beside results, or alone") {
  const test::ScratchFolder folder;
  Json of_class = a_request(1);
  of_class.update({{"rate_per_s", 4.0}, {"class", "chat"}, {"end_s", nullptr}});
  Json warming_up = a_request(3);
  warming_up["measured"] = false;
  const std::string file = file_of(
      folder, "r.jsonl",
      a_request(0).dump() + "\n\n" + of_class.dump() + "\n" + warming_up.dump() + "\n" + a_request(2).dump());
  const Report alone = read_result_files({file});
  CHECK(alone.title == "Request by request");
  REQUIRE(alone.requests.size() == 1);
  CHECK(alone.requests[0] ==
        Json({{"requests_of", file},
              {"all", 3},
              {"left_out", 1},
              {"groups",
               {{{"system", "vllm"},
                 {"rate_per_s", nullptr},
                 {"all", 2},
                 {"requests",
                  {{0, 0, 100, 4, 1.5, 2, 3.5, nullptr, 1, nullptr},
                   {2, 2, 100, 4, 1.5, 2, 3.5, nullptr, 1, nullptr}}}},
                {{"system", "vllm"},
                 {"rate_per_s", 4.0},
                 {"all", 1},
                 {"requests", Json::array({{1, 1, 100, 4, 1.5, 2, nullptr, "chat", 1, nullptr}})}}}}}));
  CHECK(Json::parse(data_of(report_html(alone)))["requests"] == Json::array({alone.requests[0]}));
  const std::string load = file_of(folder, "load.json", a_load().dump());
  CHECK(read_result_files({file, load}).title == "small");
}

TEST_CASE("report: of many requests each group has its share, spread over its lines", "[plain]") {
  const test::ScratchFolder folder;
  std::string text;
  constexpr std::size_t kAll = 4 * kMostRequestsDrawn;
  for (std::size_t i = 0; i < kAll; ++i) {
    Json q = a_request(i);
    if (i % 4 == 0) q["system"] = "other";
    text += q.dump() + "\n";
  }
  const Json drawn = read_request_records(file_of(folder, "r.jsonl", text));
  CHECK(drawn["all"] == kAll);
  std::size_t shown = 0;
  for (const Json& group : drawn["groups"]) {
    const Json& requests = group["requests"];
    shown += requests.size();
    CHECK(requests.size() == group["all"].get<std::size_t>() / 4);
    for (std::size_t i = 1; i < requests.size(); ++i)  // every fourth of the group's
      CHECK(requests[i][0].get<double>() - requests[i - 1][0].get<double>() ==
            Approx(group["system"] == "other" ? 16 : 16.0 / 3).margin(0.7));
  }
  CHECK(shown <= kMostRequestsDrawn);
}

TEST_CASE("report: a line that is no request is refused, with its number") {
  const test::ScratchFolder folder;
  const auto problem_with = [&](const std::string& line) {
    try {
      read_result_files({file_of(folder, "bad.jsonl", a_request(0).dump() + "\n" + line + "\n")});
    } catch (const InputError& error) {
      CHECK(error.problems().front().line == 2);
      return error.problems().front().what;
    }
    return std::string("accepted");
  };
  const auto with = [&](const char* key, const Json& value) {
    Json q = a_request(1);
    q[key] = value;
    return problem_with(q.dump());
  };
  CHECK(contains(problem_with("{"), "is not JSON; expected a request a line, as 'moelab run --requests'"));
  CHECK(contains(problem_with("[1]"), "is no JSON object; expected a request a line"));
  CHECK(contains(problem_with("\xff"), "is not JSON"));
  CHECK(contains(with("system", 3), "system: expected a text; 'moelab run --requests' writes it so"));
  for (const char* key : {"request", "arrival_s", "prompt_tokens", "output_tokens", "started_s"}) {
    CHECK(contains(with(key, nullptr), std::string(key) + ": expected a number from 0 to 1e+12"));
    CHECK(contains(with(key, -1), "a number from 0"));
    CHECK(contains(with(key, 1e300), "a number from 0"));
  }
  CHECK(contains(with("end_s", "soon"), "end_s: expected a number from 0 to 1e+12 or null"));
  CHECK(contains(with("class", 3), "class: expected a text or null"));
  CHECK(contains(with("server", 3), "server: expected a text or null"));
  CHECK(contains(with("seed", "1"), "seed: expected a number"));
  CHECK(contains(problem_with(std::string(3000, '[')), "nests deeper than 64 levels"));
  CHECK(contains(with("measured", 3), "measured: expected true or false"));
  CHECK(with("first_token_s", nullptr) == "accepted");
  CHECK(contains(refusal_of(file_of(folder, "cold.jsonl",
                                    [] {
                                      Json q = a_request(0);
                                      q["measured"] = false;
                                      return q.dump();
                                    }())),
                 "has no requests that statistics are of"));
  CHECK(contains(refusal_of(file_of(folder, "none.jsonl", "\n")), "has no requests"));
}

TEST_CASE("report: a file of curves that keeps not to its form is refused, with the place") {
  const test::ScratchFolder folder;
  const auto error_with = [&](const char* place, const Json& value) {
    Json load = a_load();
    load[Json::json_pointer(place)] = value;
    try {
      read_result_files({file_of(folder, "bad.json", load.dump())});
    } catch (const InputError& error) {
      return error.problems().front().what;
    }
    return std::string("accepted");
  };
  const std::string seed = "/systems/0/points/1/seeds/0";
  CHECK(contains(error_with("/load_format", 2), "load_format: expected 1, the form that this program reads"));
  CHECK(contains(error_with("/load_format", "1"), "load_format: expected 1"));
  CHECK(contains(error_with("/model", 3), "model: expected a text; 'moelab load --out' writes it so"));
  CHECK(contains(error_with("/systems", Json::array()), "systems: expected a list that is not empty"));
  CHECK(contains(error_with("/systems/0", 3), "systems[0]: expected an object"));
  CHECK(contains(error_with("/systems/0/system", nullptr), "systems[0].system: expected a text"));
  CHECK(contains(error_with("/systems/0/points", "x"), "systems[0].points: expected a list"));
  CHECK(contains(error_with("/systems/0/points/1/rate_per_s", 0), "rate_per_s: expected a rate above 0"));
  CHECK(contains(error_with("/systems/0/points/1/rate_per_s", -1), "a number from 0 to 1e+12"));
  CHECK(contains(error_with("/systems/0/highest_rate", 3), "highest_rate: expected an object"));
  CHECK(contains(error_with((seed + "/ttft_s/p90").c_str(), 1e300),
                 "systems[0].points[1].seeds[0].ttft_s.p90: expected a number from 0 to 1e+12 or null"));
  CHECK(contains(error_with((seed + "/tpot_s").c_str(), 3), "tpot_s: expected an object"));
  CHECK(contains(error_with((seed + "/met_share").c_str(), 1.5),
                 "met_share: expected a number from 0 to 1 or"));
  CHECK(contains(error_with((seed + "/refusal").c_str(), 3), "refusal: expected a text or null"));
  CHECK(contains(error_with("/level", 3), "level: expected an object or null"));
  CHECK(
      contains(error_with("/level/clauses/0/limit_s", "2 s"), "level.clauses[0].limit_s: expected a number"));
  CHECK(contains(error_with("/level/clauses/0/class", 3), "level.clauses[0].class: expected a text"));
  CHECK(error_with((seed + "/refusal").c_str(), "does not fit") == "accepted");
  CHECK(error_with("/level", nullptr) == "accepted");
  const Json whole = a_load();
  for (const auto& [key, value] : whole.items()) {
    if (key == "load_format" || key == "question" || key == "level") continue;
    Json load = whole;
    load.erase(key);
    CAPTURE(key);
    CHECK_THROWS_AS(read_result_files({file_of(folder, "bad.json", load.dump())}), InputError);
  }
}

TEST_CASE("report: the command writes a page, or says what is wrong and writes nothing") {
  const test::ScratchFolder folder;
  const std::string good = file_of(folder, "good.json", a_result("lru", 1).dump());
  const std::string bad = file_of(folder, "bad.json", "[1]");
  const std::string out = folder / "report.html";
  const auto report = [](Strings words) {
    words.insert(words.begin(), "report");
    return run_program(MOELAB_PROGRAM, words);
  };
  const ProgramResult failed = report({good, bad, folder / "none.json", "--out", out});
  CHECK(failed.status == 2);
  CHECK(contains(failed.err, bad + ": element 1 is number, not an object"));
  CHECK(contains(failed.err, (folder / "none.json").string()));  // all that is wrong at once
  CHECK(!std::filesystem::exists(out));
  CHECK(report({good, "--out", good}).status == 2);
  CHECK(test::read_bytes(good) == a_result("lru", 1).dump());
  CHECK(report({good}).status == 2);
  CHECK(report({"--out", out}).status == 2);

  const ProgramResult written = report({good, "--out", out, "--title", "Of <b>mine</b>"});
  CAPTURE(written.err);
  REQUIRE(written.status == 0);
  CHECK(Json::parse(data_of(test::read_bytes(out)))["title"] == "Of <b>mine</b>");
}

}  // namespace moelab::report_test
