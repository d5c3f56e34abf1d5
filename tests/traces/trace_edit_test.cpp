// Traces made of others, read back and compared row by row with what a plain list says they must hold.
#include "traces/trace_edit.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "tests/random_runs.hpp"
#include "tests/traces/random_traces.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::trace_edit_test {
namespace {

using Catch::Matchers::Contains;
using test::error_of;
using test::PlainRequest;
using test::PlainRow;
using test::PlainTrace;
using test::random_plain_trace;
using test::ScratchFolder;

/// As read_routing_trace gives it, in plain lists.
std::vector<PlainRequest> plain_of(const RoutingTrace& trace) {
  std::vector<PlainRequest> requests;
  for (std::size_t r = 0; r < trace.requests().size(); ++r) {
    PlainRequest& request = requests.emplace_back();
    request.domain = trace.description().domains.empty() ? 0 : trace.domain_of(r);
    for (std::uint64_t t = trace.requests()[r].begin; t < trace.requests()[r].end; ++t) {
      PlainRow& row = request.rows.emplace_back();
      row.phase = trace.phase_of(t);
      for (std::uint32_t l = 0; l < trace.layers(); ++l) {
        const auto ids = trace.experts_of(t, l);
        const auto gates = trace.scores_of(t, l);
        row.ids.emplace_back(ids.begin(), ids.end());
        row.gates.emplace_back(gates.begin(), gates.end());
      }
    }
  }
  return requests;
}

void check_same(const std::vector<PlainRequest>& got, const std::vector<PlainRequest>& due) {
  REQUIRE(got.size() == due.size());
  for (std::size_t r = 0; r < due.size(); ++r) {
    REQUIRE(got[r].domain == due[r].domain);
    REQUIRE(got[r].rows.size() == due[r].rows.size());
    for (std::size_t t = 0; t < due[r].rows.size(); ++t) {
      REQUIRE(got[r].rows[t].phase == due[r].rows[t].phase);
      REQUIRE(got[r].rows[t].ids == due[r].rows[t].ids);
      REQUIRE(got[r].rows[t].gates == due[r].rows[t].gates);
    }
  }
}

NumberRange random_range(Random& random, std::uint64_t all) {
  if (random.below(3) == 0) return {};
  NumberRange range{random.below(all), 0};
  range.end = range.begin + 1 + random.below(all + 2);
  return range;
}

template <class List>
List part(const List& list, const NumberRange& range) {
  const auto begin = std::min<std::uint64_t>(range.begin, list.size()),
             end = std::min<std::uint64_t>(range.end, list.size());
  return List(list.begin() + static_cast<std::ptrdiff_t>(begin),
              list.begin() + static_cast<std::ptrdiff_t>(end));
}

std::vector<PlainRequest> sliced(const PlainTrace& plain, const TraceEdit& edit) {
  std::vector<PlainRequest> requests;
  for (PlainRequest request : part(plain.requests, edit.requests)) {
    const bool had_rows = !request.rows.empty();
    request.rows = part(request.rows, edit.tokens);
    if (had_rows && request.rows.empty()) continue;
    for (PlainRow& row : request.rows) {
      row.ids = part(row.ids, edit.layers);
      row.gates = part(row.gates, edit.layers);
    }
    requests.push_back(request);
  }
  return requests;
}

bool empty(const std::vector<PlainRequest>& requests) {
  return std::all_of(requests.begin(), requests.end(), [](const PlainRequest& r) { return r.rows.empty(); });
}

}  // namespace

TEST_CASE("a slice of requests, tokens and layers holds what lists cut the same way hold") {
  const ScratchFolder folder;
  for (std::uint64_t seed = 0; seed < test::random_runs(500u); ++seed) {
    Random random(seed, 21, 0);
    const PlainTrace plain = random_plain_trace(random);
    TraceEdit edit;
    edit.requests = random_range(random, plain.requests.size());
    edit.tokens = random_range(random, 20);
    edit.layers = random_range(random, plain.about.layers);
    const std::vector<PlainRequest> due = sliced(plain, edit);
    INFO("seed " << seed);
    const std::filesystem::path out = folder / "slice";
    const auto write = [&] { write_edited(plain.built(), "t", edit, "sliced", out); };
    if (empty(due)) {
      CHECK_THAT(error_of(write), Contains("has no tokens in what was asked for"));
      continue;
    }
    write();
    const RoutingTrace got = read_routing_trace(out.string());
    check_same(plain_of(got), due);
    CHECK(got.model() == plain.about.model);
    CHECK_THAT(got.provenance(), Contains("sliced"));
  }
}

TEST_CASE("relabelling changes phases and nothing else, and refuses those that would fall") {
  const ScratchFolder folder;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < test::random_runs(500u); ++seed) {
    Random random(seed, 22, 0);
    const PlainTrace plain = random_plain_trace(random);
    TraceEdit edit;
    if (random.below(2) == 0) edit.from = static_cast<Phase>(random.below(3));
    edit.to = static_cast<Phase>(random.below(3));
    if (seed % 5 == 0) edit.from = Phase::decode, edit.to = Phase::encoder;  // falls behind a prompt
    std::vector<PlainRequest> due = plain.requests;
    bool falls = false;
    for (PlainRequest& request : due) {
      for (PlainRow& row : request.rows)
        if (!edit.from || row.phase == *edit.from) row.phase = *edit.to;
      falls =
          falls || !std::is_sorted(request.rows.begin(), request.rows.end(),
                                   [](const PlainRow& a, const PlainRow& b) { return a.phase < b.phase; });
    }
    INFO("seed " << seed);
    const std::filesystem::path out = folder / "relabelled";
    const auto write = [&] { write_edited(plain.built(), "t", edit, "relabelled", out); };
    if (falls) {
      ++refused;
      CHECK_THAT(error_of(write), Contains("would have an earlier phase than the token before it"));
      continue;
    }
    write();
    check_same(plain_of(read_routing_trace(out.string())), due);
  }
  CHECK(refused > 0);
}

TEST_CASE("merged traces hold all requests, their kinds by name") {
  const ScratchFolder folder;
  for (std::uint64_t seed = 0; seed < test::random_runs(300u); ++seed) {
    Random random(seed, 23, 0);
    std::vector<PlainTrace> plain{random_plain_trace(random)};
    const test::PlainSizes sizes{plain[0].about.layers,  plain[0].about.experts, plain[0].about.top_k, 3, 9,
                                 plain[0].encoder_layers};
    for (std::uint64_t i = 1 + random.below(3); i-- > 0;) {
      PlainTrace other = random_plain_trace(random, sizes);
      if (other.about.gate_scores != plain[0].about.gate_scores) continue;
      other.about.model = plain[0].about.model;
      std::reverse(other.about.domains.begin(), other.about.domains.end());
      plain.push_back(other);
    }
    std::vector<RoutingTrace> traces;
    std::vector<std::string> names;
    const bool any =
        std::any_of(plain.begin(), plain.end(), [](const PlainTrace& t) { return !t.about.domains.empty(); });
    std::vector<std::pair<std::string, PlainRequest>> due;  // by the name of their kind
    for (const PlainTrace& t : plain) {
      traces.push_back(t.built());
      names.push_back("file " + std::to_string(names.size()));
      for (const PlainRequest& request : t.requests)
        due.emplace_back(!any                      ? ""
                         : t.about.domains.empty() ? names.back()
                                                   : t.about.domains[request.domain],
                         request);
    }
    INFO("seed " << seed);
    write_merged(traces, names, "", folder / "merged");
    const RoutingTrace got = read_routing_trace((folder / "merged").string());
    const std::vector<std::string>& domains = got.description().domains;
    std::vector<PlainRequest> requests;
    for (auto& [domain, request] : due) {
      request.domain = 0;
      if (any)
        request.domain =
            static_cast<std::uint16_t>(std::find(domains.begin(), domains.end(), domain) - domains.begin());
      requests.push_back(request);
    }
    check_same(plain_of(got), requests);
  }
}

TEST_CASE(
    "traces that differ in form or model are not merged; the message names the file and the difference") {
  const ScratchFolder folder;
  const auto trace = [](std::uint32_t layers, std::uint32_t experts, const std::string& model) {
    RoutingTraceBuilder builder(model, "", false, layers, experts, 1, false);
    builder.begin_request();
    builder.add_token(Phase::decode, std::vector<std::uint16_t>(layers, 0), {});
    return builder.finish();
  };
  const auto merge = [&](const RoutingTrace& other) {
    return error_of([&] { write_merged({trace(2, 8, "m"), other}, {"a", "b"}, "", folder / "out"); });
  };
  CHECK_THAT(merge(trace(3, 8, "m")), Contains("b: has 3 layers, and the first 2 (a)"));
  CHECK_THAT(merge(trace(2, 9, "m")), Contains("b: has 9 experts a layer, and the first 8 (a)"));
  CHECK_THAT(merge(trace(2, 8, "n")),
             Contains("is of the model 'n', and a of 'm'; if they are the same, name it with --model"));
  CHECK(merge(trace(2, 8, "m")).empty());
}

TEST_CASE("ranges beyond the trace say what it has") {
  const ScratchFolder folder;
  RoutingTraceBuilder builder("m", "", false, 2, 8, 1, false);
  builder.begin_request();
  builder.add_token(Phase::decode, std::vector<std::uint16_t>{0, 1}, {});
  const RoutingTrace trace = builder.finish();
  TraceEdit edit;
  edit.layers = {2, 5};
  CHECK_THAT(error_of([&] { write_edited(trace, "t", edit, "", folder / "out"); }),
             Contains("--layers 2:") && Contains("keeps none: t has layers 0 to 1"));
  edit.layers = {};
  edit.requests = {7, 9};
  CHECK_THAT(error_of([&] { write_edited(trace, "t", edit, "", folder / "out"); }),
             Contains("keeps none: t has requests 0 to 0"));
}

TEST_CASE("samples are as many as asked for, ascending, and each set as likely") {
  std::map<std::vector<std::uint64_t>, int> times;  // of the 10 ways to take 2 of 5
  constexpr int kSamples = 20000;
  for (std::uint64_t seed = 0; seed < kSamples; ++seed) ++times[sample_of(5, 2, seed)];
  CHECK(times.size() == 10);
  for (const auto& [sample, number] : times) {
    REQUIRE((sample.size() == 2 && sample[0] < sample[1] && sample[1] < 5));
    CHECK(number == Approx(kSamples / 10.0).margin(5 * std::sqrt(kSamples * 0.1 * 0.9)));
  }
  CHECK(sample_of(3, 3, 1) == std::vector<std::uint64_t>{0, 1, 2});
}

}  // namespace moelab::trace_edit_test
