// moelab report of published measurements: what is read, what is refused and where it stands, whatever is in
// the file.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <random>

#include "cli/report/report.hpp"
#include "cli/report/result_files.hpp"
#include "cli/report/world_results.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "tests/cli/program_checks.hpp"
#include "tests/cli/report_refusals.hpp"
#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::world_report_test {
namespace {

using Json = nlohmann::ordered_json;

Json world_row(const std::string& id, bool counted) {
  return {{"id", id},
          {"model", "qwen3-30b-a3b"},
          {"weights", "bf16"},
          {"machine", "a100-80gb"},
          {"gpus", 1},
          {"runtime", "vllm"},
          {"metric", "decode"},
          {"unit", "tok/s"},
          {"source", "a page"},
          {"group", "one GPU, decode"},
          {"phase", "decode"},
          {"measured", 100.0},
          {"predicted", 90.0},
          {"predicted_source_left_out", 80.0},
          {"null_model", 300.0},
          {"bound_by", "weights"},
          {"counted", counted},
          {"why_not", counted ? Json(nullptr) : Json("vague")}};
}

/// A row that was not understood.
Json unknown_row() {
  Json row = world_row("c", false);
  for (const char* key :
       {"group", "phase", "predicted", "predicted_source_left_out", "null_model", "bound_by"})
    row[key] = nullptr;
  row["unit"] = "W";
  return row;
}

/// As run.sh writes it: one row counted, one predicted and not counted, one not understood.
Json a_world() {
  Json groups = Json::array();
  for (const char* name : {"one GPU, decode", "all decode"})
    groups.push_back({{"name", name},
                      {"rows", 1},
                      {"median_error", 0.1},
                      {"median_error_source_left_out", 0.2},
                      {"nine_in_ten_factor_less_1", 0.25},
                      {"median_error_null_model", 2.0},
                      {"within_tolerance", 1.0}});
  return {{"world_format", 1},
          {"version", "1"},
          {"question", "How near?"},
          {"answer", "Near."},
          {"files", Json::array({"points.csv"})},
          {"tolerance", 0.3},
          {"groups", groups},
          {"rows", Json::array({world_row("a", true), world_row("b", false), unknown_row()})}};
}

/// What is said of a document, or "accepted".
std::string said_of(const Json& world) {
  const test::ScratchFolder folder;
  const std::string file = folder / "world.json";
  test::write_bytes(file, world.dump(-1, ' ', false, Json::error_handler_t::replace));
  return refusal_of(file);
}

std::string said_with(const std::string& place, const Json& value) {
  Json world = a_world();
  world[Json::json_pointer(place)] = value;
  return said_of(world);
}

/// What an object has at a key; of one that lacks it what is neither text nor number nor null.
Json value_at(const Json& object, const char* key) {
  return object.contains(key) ? object[key] : Json(Json::value_t::discarded);
}

bool above_zero(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0;
}

/// Whether all that the page computes with is what it counts on, written independently of the reader.
bool can_be_drawn(const Json& world) {
  bool good = above_zero(value_at(world, "tolerance")) && value_at(world, "answer").is_string() &&
              !world["rows"].empty();
  for (const Json& row : world["rows"]) {
    const bool counted = value_at(row, "counted").get<bool>();
    good &= above_zero(value_at(row, "measured"));
    for (const char* key : {"id", "unit", "model", "machine"}) good &= value_at(row, key).is_string();
    for (const char* key : {"predicted", "predicted_source_left_out", "null_model"})
      good &= above_zero(value_at(row, key)) || (!counted && value_at(row, key).is_null());
    for (const char* key : {"group", "phase"})
      good &= value_at(row, key).is_string() || (!counted && value_at(row, key).is_null());
    const Json why = value_at(row, "why_not");
    good &= counted ? why.is_null() : why.is_string();
  }
  for (const Json& group : world["groups"])
    for (const char* key : {"rows", "median_error", "within_tolerance"})
      good &= value_at(group, key).is_number() && group[key].get<double>() >= 0;
  return good;
}

/// All places of a document, itself apart.
std::vector<Json::json_pointer> places_of(const Json& document) {
  std::vector<Json::json_pointer> places;
  const Json flat = document.flatten();
  for (const auto& [place, value] : flat.items())
    for (Json::json_pointer at(place); !at.empty(); at = at.parent_pointer()) places.push_back(at);
  return places;
}

/// Something that may stand anywhere.
Json anything(std::mt19937_64& random) {
  static const std::vector<Json> kValues = {nullptr,
                                            true,
                                            false,
                                            0,
                                            1,
                                            -1,
                                            2.5,
                                            1e300,
                                            1e15,
                                            -1e-9,
                                            "",
                                            "decode",
                                            "tok/s",
                                            "\xff",
                                            "</script>",
                                            "__proto__",
                                            "1",
                                            Json::array(),
                                            Json::object(),
                                            Json::array({1}),
                                            {{"rows", 3}},
                                            world_row("x", true)};
  return kValues[random() % kValues.size()];
}

}  // namespace

TEST_CASE("world report: measurements stand beside results, and alone") {
  const test::ScratchFolder folder;
  const std::string world = folder / "world.json", run = folder / "run.json";
  test::write_bytes(world, a_world().dump());
  const Json result = {{"scenario", "small"},
                       {"system", "lru"},
                       {"executor", "fast"},
                       {"seed", 1},
                       {"metrics", Json::object()}};
  test::write_bytes(run, result.dump());
  const Report alone = read_result_files({world});
  REQUIRE(alone.worlds.size() == 1);
  CHECK(alone.worlds[0] == a_world());
  CHECK(alone.points.empty());
  CHECK(alone.title == "Published measurements, predicted");
  CHECK(alone.question == "How near?");
  const Report both = read_result_files({run, world, world});
  CHECK(both.worlds.size() == 2);
  CHECK(both.points.size() == 1);
  CHECK(both.title == "Published measurements, predicted, small");
}

TEST_CASE("world report: what keeps not to the form is refused, with its place") {
  const std::string row = "rows[0].";
  CHECK(said_of(a_world()) == "accepted");
  CHECK(
      contains(said_with("/world_format", 2), "world_format: expected 1, the form that this program reads"));
  CHECK(contains(said_with("/world_format", "1"), "world_format: expected 1"));
  CHECK(contains(said_with("/answer", 3),
                 "answer: expected a text; 'experiments/world/run.sh --out' writes it so"));
  CHECK(contains(said_with("/files", "points.csv"), "files: expected a list of texts"));
  CHECK(contains(said_with("/files/0", 3), "files[0]: expected a text"));
  CHECK(contains(said_with("/tolerance", 0), "tolerance: expected a number above 0"));
  CHECK(contains(said_with("/tolerance", 1.5), "tolerance: expected a number from 0 to 1"));
  CHECK(contains(said_with("/rows", Json::array()), "rows: expected a list that is not empty"));
  CHECK(contains(said_with("/rows/1", 3), "rows[1]: expected an object"));
  CHECK(contains(said_with("/groups", Json::array()), "groups: expected a list that is not empty"));
  CHECK(contains(said_with("/groups", 3), "groups: expected a list"));
  for (const char* key : {"id", "model", "weights", "machine", "runtime", "metric", "source"})
    CHECK(contains(said_with("/rows/0/" + std::string(key), 3), row + key + ": expected a text"));
  CHECK(contains(said_with("/rows/0/unit", "W"), row + "unit: expected tok/s or ms"));
  CHECK(contains(said_with("/rows/0/gpus", -1), row + "gpus: expected a number from 0"));
  for (const char* key : {"measured", "predicted", "predicted_source_left_out", "null_model"}) {
    const std::string place = "/rows/0/" + std::string(key);
    CHECK(contains(said_with(place, 0), row + key + ": expected a number above 0"));
    CHECK(contains(said_with(place, -1), row + key + ": expected a number from 0 to 1e+15"));
    CHECK(contains(said_with(place, 1e300), row + key + ": expected a number from 0 to 1e+15"));
    CHECK(contains(said_with(place, "9"), row + key + ": expected a number"));
    CHECK(contains(said_with(place, nullptr), row + key + ": expected a number"));
  }
  CHECK(contains(said_with("/rows/0/phase", nullptr), row + "phase: expected decode or prefill"));
  CHECK(contains(said_with("/rows/1/phase", "both"), "rows[1].phase: expected decode or prefill, or null"));
  CHECK(contains(said_with("/rows/0/group", nullptr), row + "group: expected a text"));
  CHECK(contains(said_with("/rows/1/group", 3), "rows[1].group: expected a text or null"));
  CHECK(contains(said_with("/rows/0/bound_by", nullptr), row + "bound_by: expected a text"));
  CHECK(contains(said_with("/rows/0/counted", 1), row + "counted: expected true or false"));
  CHECK(contains(said_with("/rows/0/why_not", "x"), row + "why_not: expected null, for the row is counted"));
  CHECK(contains(said_with("/rows/2/why_not", nullptr), "rows[2].why_not: expected a text"));
  for (const char* key : {"rows", "median_error", "median_error_source_left_out", "nine_in_ten_factor_less_1",
                          "median_error_null_model", "within_tolerance"})
    for (const Json& value : {Json(nullptr), Json(-1), Json("1")})
      CHECK(contains(said_with("/groups/1/" + std::string(key), value),
                     "groups[1]." + std::string(key) + ": expected a number from 0 to"));
  CHECK(contains(said_with("/groups/0/name", 3), "groups[0].name: expected a text"));
  CHECK(contains(said_with("/groups/0/within_tolerance", 1.5), "from 0 to 1;"));
}

TEST_CASE("world report: no key may be missing") {
  for (const char* object : {"", "/rows/0", "/rows/1", "/rows/2", "/groups/0"}) {
    const Json whole = a_world();
    for (const auto& [key, value] : whole[Json::json_pointer(object)].items()) {
      if (key == "world_format") continue;  // another kind of file
      Json world = whole;
      world[Json::json_pointer(object)].erase(key);
      CAPTURE(object, key);
      CHECK(contains(said_of(world), key + ": expected"));
    }
  }
}

TEST_CASE("world report: whatever a file holds, it is refused or can be drawn") {
  std::mt19937_64 random(20261127);
  int accepted = 0, refused = 0;
  for (int i = 0; i < test::random_runs(3000); ++i) {
    Json world = a_world();
    for (std::uint64_t edits = 1 + random() % 2; edits > 0; --edits) {
      const std::vector<Json::json_pointer> places = places_of(world);
      const Json::json_pointer at = places[random() % places.size()];
      if (Json& parent = world[at.parent_pointer()]; parent.is_object() && random() % 4 == 0)
        parent.erase(at.back());
      else
        world[at] = anything(random);
      if (!world.is_object() || !world.contains("world_format")) break;
    }
    if (!is_world_result(world)) continue;
    CAPTURE(world.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (problem_of_world(world).empty()) {
      ++accepted;
      CHECK(can_be_drawn(world));
      Report report{"t", "", {}};
      report.worlds.push_back(world);
      const std::string page = report_html(report);
      CHECK(page.find("</script>", page.find("id=\"data\"")) > page.find("\"worlds\""));
    } else {
      ++refused;
    }
  }
  CHECK(accepted > 10);
  CHECK(refused > 100);
}

TEST_CASE("world report: broken files are refused, whichever byte is wrong") {
  std::mt19937_64 random(7);
  const std::string whole = a_world().dump();
  const test::ScratchFolder folder;
  const std::string file = folder / "world.json";
  for (int i = 0; i < test::random_runs(1000); ++i) {
    std::string text = whole;
    if (i % 2 == 0)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    else
      text.resize(random() % text.size());
    test::write_bytes(file, text);
    try {
      for (const Json& world : read_result_files({file}).worlds) CHECK(can_be_drawn(world));
      CHECK(i % 2 == 0);  // one that was cut is none
    } catch (const InputError& error) {
      CHECK(error.problems().size() == 1);
    }
  }
}

TEST_CASE("world report: texts of others stay data") {
  const std::string hostile = "</script><script>alert(1)</script>";
  Json world = a_world();
  world["answer"] = world["rows"][0]["model"] = world["groups"][0]["name"] = hostile;
  CHECK(said_of(world) == "accepted");
  Report report{"t", "", {}};
  report.worlds.push_back(world);
  CHECK(!contains(report_html(report), "<script>alert"));
}

}  // namespace moelab::world_report_test
