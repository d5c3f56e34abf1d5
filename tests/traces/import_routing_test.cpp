// Random routing written as CSV, JSON lines, .npy, .npz and raw numbers by the test, imported, and compared;
// the same files damaged; and each thing that is refused, with its place.
#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <filesystem>

#include "tests/random_runs.hpp"
#include "tests/traces/import_files.hpp"
#include "traces/import/array_import.hpp"
#include "traces/import/table_import.hpp"

namespace moelab::import_routing_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

std::string phase_text(Phase phase) {
  return phase == Phase::prefill ? "prefill" : "decode";
}

// Calls `row(request, token in request, token, layer)` in order.
template <typename Row>
void each_row(const Table& t, Row row) {
  std::uint64_t token = 0;
  for (std::size_t r = 0; r < t.requests.size(); ++r) {
    for (std::uint64_t i = 0; i < t.requests[r]; ++i, ++token) {
      for (std::uint32_t layer = 0; layer < t.layers; ++layer) row(r, i, token, layer);
    }
  }
}

std::string join(const Table& t, std::uint64_t token, std::uint32_t layer, bool scores, const char* between) {
  std::string text;
  for (std::uint32_t k = 0; k < t.top_k; ++k) {
    const std::size_t at = (token * t.layers + layer) * t.top_k + k;
    text += (k > 0 ? between : "") + (scores ? std::to_string(t.gate[at]) : id_text(t.ids[at]));
  }
  return text;
}

std::string csv_long(const Table& t) {
  std::string text = "request,token,layer,rank,expert,phase" + std::string(t.scores ? ",score\n" : "\n");
  each_row(t, [&](std::size_t r, std::uint64_t i, std::uint64_t token, std::uint32_t layer) {
    for (std::uint32_t k = 0; k < t.top_k; ++k) {
      const std::size_t at = (token * t.layers + layer) * t.top_k + k;
      text += "\"r," + std::to_string(r) + "\"," + std::to_string(i + 5) + "," + std::to_string(layer + 3) +
              "," + std::to_string(k) + "," + id_text(t.ids[at]) + "," + phase_text(t.phases[token]) +
              (t.scores ? "," + std::to_string(t.gate[at]) : "") + "\n";
    }
  });
  return text;
}

std::string csv_wide(const Table& t) {
  std::string text = "layer;token;experts;phase;request" + std::string(t.scores ? ";score\n" : "\n");
  each_row(t, [&](std::size_t r, std::uint64_t i, std::uint64_t token, std::uint32_t layer) {
    text += std::to_string(layer) + ";" + std::to_string(i) + ";\"[" + join(t, token, layer, false, ", ") +
            "]\";" + phase_text(t.phases[token]) + ";" + std::to_string(r) +
            (t.scores ? ";" + join(t, token, layer, true, " ") : "") + "\r\n";
  });
  return text;
}

std::string jsonl_request(const Table& t) {
  std::string text;
  std::uint64_t token = 0;
  for (const std::uint64_t tokens : t.requests) {
    std::string ids, scores;
    std::uint64_t prompt = 0;
    for (std::uint64_t i = 0; i < tokens; ++i, ++token) {
      prompt += t.phases[token] == Phase::prefill ? 1 : 0;
      for (std::uint32_t layer = 0; layer < t.layers; ++layer) {
        const std::string before = layer > 0 ? "," : i > 0 ? "],[" : "[";
        ids += before + "[" + join(t, token, layer, false, ",") + "]";
        if (t.scores) scores += before + "[" + join(t, token, layer, true, ",") + "]";
      }
    }
    text += "{\"other\": [{\"x\": [1, [2]]}], \"n\": {\"prompt\": " + std::to_string(prompt) +
            "}, \"ids\": [" + ids + "]]" + (t.scores ? ", \"scores\": [" + scores + "]]" : "") + "}\n";
  }
  return text;
}

RowNames csv_names(const Table& t, bool wide) {
  RowNames names;
  names.request = "request";
  names.token = "token";
  names.layer = "layer";
  names.experts = {wide ? "experts" : "expert"};
  if (!wide) names.rank = "rank";
  names.phase = "phase";
  if (t.scores) names.scores = {"score"};
  return names;
}

RowNames json_names(const Table& t) {
  RowNames names;
  names.experts = {"ids"};
  names.prompt_tokens = "n.prompt";
  if (t.scores) names.scores = {"scores"};
  return names;
}

ImportTarget target_of(const Table& t, const std::filesystem::path& out) {
  ImportTarget target;
  target.out = out;
  target.model = "m";
  target.experts = t.experts;
  return target;
}

std::string npz_of(const Table& t) {
  std::vector<std::int64_t> offsets{0};
  for (const std::uint64_t tokens : t.requests)
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(tokens));
  std::vector<std::int32_t> ids;
  for (const std::uint16_t id : t.ids) ids.push_back(id == kNoExpert ? -1 : id);
  std::string phases;
  for (const Phase phase : t.phases) phases += static_cast<char>(phase);
  const std::vector<std::uint64_t> shape{t.tokens(), t.layers, t.top_k};
  std::vector<std::pair<std::string, std::string>> members{
      {"ids.npy", npy("<i4", shape, bytes_of(ids))},
      {"at.npy", npy("<i8", {offsets.size()}, bytes_of(offsets))},
      {"phases.npy", npy("|u1", {t.tokens()}, phases)}};
  if (t.scores) members.push_back({"scores.npy", npy("<f4", shape, bytes_of(t.gate))});
  return zip(members);
}

ArrayNames npz_names(const Table& t) {
  ArrayNames names;
  names.ids = "ids";
  names.offsets = "at";
  names.phases = "phases";
  if (t.scores) names.scores = "scores";
  return names;
}

// Imports the file in the form of that number.
void import_form(int form, const Table& t, const std::filesystem::path& in,
                 const std::filesystem::path& out) {
  const ImportTarget target = target_of(t, out);
  switch (form) {
    case 0:
      import_routing_csv(in, csv_names(t, false), target, ',', {});
      break;
    case 1:
      import_routing_csv(in, csv_names(t, true), target, ';', {});
      break;
    case 2:
      import_routing_jsonl(in, json_names(t), target, {});
      break;
    default:
      import_arrays(ArrayKind::npz, in, npz_names(t), target, {});
      break;
  }
}

std::string written(int form, const Table& t) {
  switch (form) {
    case 0:
      return csv_long(t);
    case 1:
      return csv_wide(t);
    case 2:
      return jsonl_request(t);
    default:
      return npz_of(t);
  }
}

}  // namespace

namespace {

/// The header of a table of one of the two forms, and its rows by (request, layer).
struct Lines {
  struct Line {
    std::size_t request;
    std::uint32_t layer;
    std::string text;
  };
  std::string header;
  std::vector<Line> lines;

  Lines(const Table& t, bool wide) {
    const std::string text = wide ? csv_wide(t) : csv_long(t);
    std::size_t at = text.find('\n') + 1;
    header = text.substr(0, at);
    each_row(t, [&](std::size_t r, std::uint64_t, std::uint64_t, std::uint32_t layer) {
      for (std::uint32_t k = 0; k < (wide ? 1 : t.top_k); ++k) {
        const std::size_t end = text.find('\n', at) + 1;
        lines.push_back({r, layer, text.substr(at, end - at)});
        at = end;
      }
    });
  }
  /// Layer by layer over all requests.
  void sort_by_layer() {
    std::stable_sort(lines.begin(), lines.end(),
                     [](const Line& a, const Line& b) { return a.layer < b.layer; });
  }
  void shuffle_requests(Random& random) {
    random.shuffle(std::span(lines));
    std::stable_sort(lines.begin(), lines.end(),
                     [](const Line& a, const Line& b) { return a.request < b.request; });
  }
  std::string text() const {
    std::string all = header;
    for (const Line& line : lines) all += line.text;
    return all;
  }
};

}  // namespace

TEST_CASE("CSV layer by layer or shuffled is read in any order, and tokens without numbers are counted") {
  const ScratchFolder folder;
  for (std::uint64_t seed = 0; seed < random_runs(400u); ++seed) {
    Random random(seed, 41, 0);
    const Table t = random_table(random);
    const bool wide = random.below(2) == 0, shuffled = random.below(2) == 0, counted = random.below(2) == 0;
    Lines lines(t, wide);
    RowNames names = csv_names(t, wide);
    names.any_order = random.below(3) != 0;
    if (counted) names.token.clear();
    if (names.any_order && shuffled && !counted)
      lines.shuffle_requests(random);  // rows of one layer say which token and rank they are
    else if (names.any_order)
      lines.sort_by_layer();
    write_bytes(folder / "in.csv", lines.text());
    ImportTarget target = target_of(t, folder / "out");
    target.top_k = t.top_k;
    INFO("seed " << seed);
    import_routing_csv(folder / "in.csv", names, target, wide ? ';' : ',', {});
    CHECK(difference(read_routing_trace((folder / "out").string()), t).empty());
  }
}

TEST_CASE("CSV in another form than the options say: the message names the option that reads it") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& text, bool token, bool any_order = false,
                         std::uint32_t top_k = 0) {
    write_bytes(folder / "in.csv", text);
    RowNames names;
    if (token) names.token = "token";
    names.layer = "layer";
    names.experts = {"expert"};
    names.any_order = any_order;
    ImportTarget target;
    target.out = folder / "out";
    target.experts = 4;
    target.top_k = top_k;
    return error_of([&] { import_routing_csv(folder / "in.csv", names, target, ',', {}); });
  };
  const std::string by_layer = "token,layer,expert\n0,0,1\n1,0,2\n0,1,3\n1,1,0\n";
  CHECK_THAT(error(by_layer, true), Contains("in.csv:4:1: ") &&
                                        Contains("the rows go layer by layer: layer 1 begins again") &&
                                        Contains("--any-order reads them"));
  CHECK(error(by_layer, true, true).empty());
  const std::string text_tokens = "token,layer,expert\nThe,0,1\nThe,1,2\ncat,0,3\ncat,1,0\n";
  CHECK_THAT(error(text_tokens, true),
             Contains("in.csv:2:1: expected a token's number, from 0, found 'The'") &&
                 Contains("leave --token out"));
  CHECK(error(text_tokens, false).empty());
  CHECK(read_routing_trace((folder / "out").string()).tokens() == 2);
  const std::string lists = "token,layer,expert\na,0,[1]\nb,0,[2]\na,1,[3]\nb,1,[0]\n";
  CHECK_THAT(error(lists, false), Contains("the rows go layer by layer"));
  CHECK(error(lists, false, true).empty());
  CHECK_THAT(error(by_layer, false, true), Contains("--top-k: must be given"));
  CHECK(error(by_layer, false, true, 1).empty());
  CHECK_THAT(error("token,layer,expert\n0,0,1\n1,0,9\n", true, true),
             Contains("in.csv:3: ") && Contains("expert 9 is out of range"));
  CHECK_THAT(error("token,layer,expert\n0,0,1\n0,1,1\n1,0,1\n", true, true),
             Contains("ends with 0 experts at layer 1"));
}

TEST_CASE("random routing comes back equal from every form, plain and gzipped") {
  const ScratchFolder folder;
  Random random(1);
  for (int i = 0; i < moelab::test::random_runs(400); ++i) {
    const Table t = random_table(random);
    for (int form = 0; form < 4; ++form) {
      if (i % 2 == 0 || form == 3) {
        write_bytes(folder / "in", written(form, t));
      } else {
        write_gzip(folder / "in", written(form, t));
      }
      INFO("table " << i << ", form " << form);
      import_form(form, t, folder / "in", folder / "out");
      REQUIRE(difference(read_routing_trace(folder / "out"), t).empty());
    }
  }
}

// Text without checksums cannot tell every damage from data: a digit changed to another is other routing.
// What must hold is that what comes out is a whole trace of the sizes asked for, and that .npz, which has
// checksums, gives an equal one or none.
TEST_CASE("damaged inputs give an error or a whole trace, and from .npz an equal one") {
  const ScratchFolder folder;
  Random random(2);
  std::uint64_t refused = 0, accepted = 0;
  for (int i = 0; i < moelab::test::random_runs(6000); ++i) {
    const Table t = random_table(random);
    const int form = i % 4;
    write_bytes(folder / "in", mutated(written(form, t), random));
    std::filesystem::remove(folder / "out");
    INFO("table " << i << ", form " << form);
    const std::string error = error_of([&] { import_form(form, t, folder / "in", folder / "out"); });
    if (!error.empty()) {
      ++refused;
      REQUIRE_THAT(error, Contains((folder / "in").string()));  // or names an option first
      REQUIRE_FALSE(std::filesystem::exists(folder / "out"));
      continue;
    }
    ++accepted;
    const RoutingTrace trace = read_routing_trace(folder / "out");
    REQUIRE(trace.experts() == t.experts);
    if (form == 3) REQUIRE(difference(trace, t).empty());
  }
  REQUIRE(folder.names().size() <= 2);  // no temporary files
  CHECK(refused > moelab::test::random_runs(2000));
  CHECK(accepted > moelab::test::random_runs(100));
}

TEST_CASE("what is wrong with a table is said with line and column") {
  const ScratchFolder folder;
  const auto error = [&](const std::string& rows, bool scores = false) {
    write_bytes(folder / "t.csv", "request,token,layer,expert,score\n" + rows);
    RowNames names;
    names.request = "request";
    names.token = "token";
    names.layer = "layer";
    names.experts = {"expert"};
    if (scores) names.scores = {"score"};
    ImportTarget target;
    target.out = folder / "out";
    target.experts = 4;
    return error_of([&] { import_routing_csv(folder / "t.csv", names, target, ',', {}); });
  };
  const std::string good = "a,0,0,1,.5\na,0,0,2,.5\na,0,1,3,.5\na,0,1,0,.5\n";
  CHECK(error(good).empty());
  CHECK_THAT(error(good + "a,1,0,4,.5\n"),
             Contains("t.csv:6:7: expert 4 is out of range: there are 4 experts"));
  CHECK_THAT(error(good + "a,1,0,-2,.5\n"), Contains("t.csv:6:7: expert -2 is out of range"));
  CHECK_THAT(error(good + "a,1,0,x,.5\n"), Contains("t.csv:6:7: expected an expert's number, found 'x'"));
  CHECK_THAT(error(good + "a,1,0,1,nan\n", true),
             Contains("t.csv:6:9: expected a finite score, found 'nan'"));
  CHECK_THAT(error(good + "a,1,0,1,1e39\n", true), Contains("t.csv:6:9: a score is not finite"));
  CHECK_THAT(error(good + "a,2,0,1,.5\n"), Contains("t.csv:6:3: token 2 after token 0; expected 1"));
  CHECK_THAT(error(good + "a,1,2,1,.5\n"), Contains("t.csv:6:5: token 1 of request 'a' has layer 2"));
  CHECK_THAT(error(good + "a,1,0,1,.5\na,1,0,2,.5\na,2,0,1,.5\n"),
             Contains("t.csv:8:5: token 1 of request 'a' ends with 0 experts at layer 1; expected 2"));
  CHECK_THAT(error(good + "a,1,0,1,.5\na,1,0,2,.5\na,1,0,3,.5\n"),
             Contains("t.csv:8:7: token 1 of request 'a', layer 0 has 3 experts; expected 2"));
  CHECK_THAT(error(good + "a,1,0,1,.5\na,1,0,1,.5\na,1,1,0,.5\na,1,1,1,.5\n"),
             Contains("layer 0 has expert 1 twice"));
  CHECK_THAT(error(good + "b,0,0,1,.5\nb,0,0,2,.5\nb,0,1,1,.5\nb,0,1,2,.5\na,1,0,1,.5\n"),
             Contains("t.csv:10:1: request 'a' comes back"));
  CHECK_THAT(error(good + "a,1,0,1\n"), Contains("t.csv:6: has 4 fields; the header names 5"));
  CHECK_THAT(error("a,0,0,\"1,.5\n"), Contains("t.csv:2: a quoted field that begins here is never closed"));
  CHECK_THAT(error(""), Contains("has no rows"));
}

TEST_CASE("layers in any order are found in time that does not grow with their number", "[long]") {
  const ScratchFolder folder;
  std::string rows = "token,layer,expert\n";
  for (int token = 0; token < 10; ++token) {
    for (int layer = 65535; layer >= 0; --layer)
      rows += std::to_string(token) + "," + std::to_string(layer) + ",0\n";
  }
  write_bytes(folder / "in", rows);
  RowNames names;
  names.token = "token";
  names.layer = "layer";
  names.experts = {"expert"};
  ImportTarget target;
  target.out = folder / "out";
  target.experts = 1;
  const std::clock_t begin = std::clock();
  CHECK(import_routing_csv(folder / "in", names, target, ',', {}).tokens == 10);
  // 2e10 comparisons would take more than 20 s on any machine.
  CHECK((std::clock() - begin) / CLOCKS_PER_SEC < 10);
}

TEST_CASE("a column that is not there is answered with the nearest name") {
  const ScratchFolder folder;
  write_bytes(folder / "t.csv", "token,layer,expert\n0,0,0\n");
  RowNames names;
  names.token = "tokem";
  names.layer = "layer";
  names.experts = {"expert"};
  ImportTarget target;
  target.out = folder / "out";
  target.experts = 1;
  CHECK_THAT(error_of([&] { import_routing_csv(folder / "t.csv", names, target, ',', {}); }),
             Contains("t.csv:1: has no column 'tokem' (did you mean 'token'?)"));
}

TEST_CASE("layers to be left out are, and the others keep their order") {
  const ScratchFolder folder;
  write_bytes(folder / "t.jsonl",
              "{\"t\": 0, \"e\": [[0, 0], [3, 1], [2, 0]]}\n{\"t\": 1, \"e\": [[0, 0], [1, 2], [0, 3]]}\n");
  RowNames names;
  names.token = "t";
  names.experts = {"e"};
  ImportTarget target;
  target.out = folder / "out";
  target.experts = 4;
  CHECK_THAT(error_of([&] { import_routing_jsonl(folder / "t.jsonl", names, target, {}); }),
             Contains("t.jsonl:1: token 0, layer 0 has expert 0 twice"));
  target.skip_layers = {0};
  import_routing_jsonl(folder / "t.jsonl", names, target, {});
  const RoutingTrace trace = read_routing_trace(folder / "out");
  REQUIRE(trace.layers() == 2);
  CHECK(trace.experts_of(1, 0)[0] == 1);
  CHECK(trace.experts_of(1, 1)[1] == 3);
}

}  // namespace moelab::import_routing_test
