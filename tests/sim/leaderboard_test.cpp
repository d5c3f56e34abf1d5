// Leaderboards: what is written is read back, what is wrong is found, programs that append at once or are
// killed leave whole lines.
#include "sim/sweep/leaderboard.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "models/text_file.hpp"
#include "policies/load_library.hpp"
#include "policies/policy_families.hpp"
#include "policies/policy_library.hpp"
#include "sim/sweep/leaderboard_ranks.hpp"
#include "sim/sweep/utc_time.hpp"
#include "sim/version.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::leaderboard_test {
namespace {

/// Values of two seeds: their mean, and half of their interval by Student's t of one degree of freedom, whose
/// 0.975 quantile is tan(0.475 pi), as for the Cauchy distribution: t |a - b| / sqrt(2) / sqrt(2).
LeaderboardLine line(const std::string& policy, double a, double b) {
  return {.setting = std::string(32, 'a'),
          .family = "cache",
          .scenario = "scenario",
          .system = "system",
          .model = "model",
          .device = "device",
          .budget_bytes = 2e10,
          .first_seed = 1,
          .seeds = 2,
          .policy = policy,
          .parameters = {{"k", 3}},
          .library = "moelab 1",
          .by_seed_s = {a, b},
          .mean_s = (a + b) / 2,
          .half_width_s = std::tan(0.475 * std::acos(-1.0)) * std::abs(a - b) / 2,
          .hit_share = 0.5,
          .moelab = "1",
          .date = "2020-11-30T12:00:00Z"};
}

void write(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), by);
}

/// In a process of its own.
template <class Work>
pid_t forked(const Work& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child > 0) return child;
  int status = 0;
  try {
    work();
  } catch (...) {
    status = 1;
  }
  ::_exit(status);
}

}  // namespace

TEST_CASE("a leaderboard's lines are read back as they were written") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  LeaderboardLine first = line("lru", 0.1, 0.3);
  first.law = "mixtral-8x7b";
  first.regret_s = -0.25;
  append_to_leaderboard(file, {first, line("arc", 0.2, 0.2)});
  write(file, read_text_file(file) + "\n  \n" + replaced(leaderboard_text(line("fifo", 1, 2)), "\n", ""));
  append_to_leaderboard(file, {line("lfu", 1, 2)});  // the last line was left open
  const std::vector<LeaderboardLine> read = read_leaderboard(file);
  REQUIRE(read.size() == 4);
  CHECK(leaderboard_text(read[0]) == leaderboard_text(first));
  CHECK((read[1].policy == "arc" && read[2].policy == "fifo" && read[3].policy == "lfu"));
  CHECK(read[0].parameters == PolicyParameters{{"k", 3}});
  CHECK(read[0].regret_s == -0.25);
  CHECK_FALSE(read[0].regret_hit_share.has_value());
  CHECK(folder.names() == std::vector<std::string>{"board.jsonl"});
}

TEST_CASE("a line is of times per output token or of latencies, and the two are not ranked together") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  LeaderboardLine latency = line("arc", 0.25, 0.75);
  latency.by = JudgedBy::end_to_end;
  append_to_leaderboard(file, {line("lru", 2, 2), latency});
  CHECK_THAT(read_text_file(file), Catch::Matchers::Contains("\"end_to_end_by_seed_s\":[0.25,0.75]"));
  const std::vector<LeaderboardLine> read = read_leaderboard(file);
  REQUIRE(read.size() == 2);
  CHECK((read[0].by == JudgedBy::tpot && read[1].by == JudgedBy::end_to_end));
  CHECK((read[1].by_seed_s == latency.by_seed_s && read[1].mean_s == 0.5));
  CHECK(rank_leaderboard(read).size() == 2);
  latency.by = JudgedBy::tpot;
  CHECK(rank_leaderboard({read[0], latency}).size() == 1);
}

TEST_CASE("a leaderboard holds no control characters, whatever a scenario calls its things") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  LeaderboardLine odd = line("lru", 1, 1);
  odd.scenario = "\x1b[2Jname\xc2\x9b";
  odd.system = "";
  odd.model = std::string(5000, 'x');
  append_to_leaderboard(file, {odd});
  const LeaderboardLine read = read_leaderboard(file).front();
  CHECK(read.scenario == "?[2Jname??");
  CHECK(read.system == "?");
  CHECK(read.model == std::string(1000, 'x'));
}

TEST_CASE("what is wrong with a line is said with its number") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  const std::string good = leaderboard_text(line("lru", 0.25, 0.75));
  const auto says = [&](const std::string& part, const std::string& by, const std::string& what) {
    write(file, good + replaced(good, part, by) + good);
    INFO(part << " -> " << by);
    try {
      read_leaderboard(file);
      FAIL("was read");
    } catch (const InputError& error) {
      REQUIRE(error.problems().size() == 1);
      CHECK(error.problems()[0].file == file);
      CHECK(error.problems()[0].line == 2);
      CHECK_THAT(error.problems()[0].what, Catch::Matchers::Contains(what));
    }
  };
  says("{", "", "is not JSON");
  says("{", "[{", "is not JSON");
  says("\"setting\"", "\"seting\"", "unknown key 'seting' (did you mean 'setting'?)");
  says("\"bound\":false,", "", "'bound' is missing");
  says("\"bound\":false", "\"bound\":0", "'bound': expected true or false");
  says("aaaa", "aaag", "'setting': expected 32 hexadecimal digits");
  says("\"cache\"", "\"cachee\"", "did you mean 'cache'?");
  says("\"lru\"", "\"l\\u001bru\"", "'policy': expected 1 to 1000 bytes without control characters");
  says("\"scenario\":\"scenario\"", "\"scenario\":\"\\u009b\"", "without control characters");
  says("\"lru\"", "\"LRU!\"", "'policy': expected the name of a policy");
  says("\"seeds\":2", "\"seeds\":0", "'seeds': expected a whole number from 1 to 1000");
  says("\"seeds\":2", "\"seeds\":3", "'tpot_by_seed_s': expected a list of 3 numbers");
  says("[0.25,0.75]", "[0.25,\"x\"]", "'tpot_by_seed_s': expected a number");
  says("[0.25,0.75]", "[0.25,-1]", "'tpot_by_seed_s': expected a number from 1e-12");
  says("[0.25,0.75]", "[0.25,1e999]", "is not JSON");
  says("\"tpot_s\":0.5", "\"tpot_s\":0.4", "'tpot_s': expected the mean of 'tpot_by_seed_s', 0.5");
  says("\"tpot_half_width_s\":3", "\"tpot_half_width_s\":4", "'tpot_half_width_s': expected that of");
  says("\"tpot_s\"", "\"end_to_end_by_seed_s\":[1,1],\"tpot_s\"",
       "'tpot_by_seed_s' is beside 'end_to_end_by_seed_s'; expected times per output token or latencies");
  says("\"tpot_s\":0.5", "\"end_to_end_s\":0.5", "'end_to_end_s' is beside 'tpot_by_seed_s'");
  says("\"hit_share\":0.5", "\"hit_share\":1.5", "'hit_share': expected a number from 0 to 1");
  says("{\"k\":3.0}", "{\"K\":3.0}", "'parameters': expected names of parameters");
  says("2020-11-30T12:00:00Z", "30.11.2026", "'date': expected a date such as 2026-11-30T12:00:00Z");
  for (const char* date :
       {"9999-99-99T99:99:99Z", "2020-13-01T00:00:00Z", "2020-00-01T00:00:00Z", "2020-11-31T00:00:00Z",
        "2021-02-29T00:00:00Z", "2020-11-30T24:00:00Z", "2020-11-30T12:60:00Z", "2020-11-30T12:00:60Z"})
    says("2020-11-30T12:00:00Z", date, "'date': expected a date such as");
  constexpr std::int64_t kHour = 60 * 60;
  says("2020-11-30T12:00:00Z", utc_now(25 * kHour), "'date': expected one that has been, found 2");
  for (const char* turn : {"061c", "200e", "200f", "202a", "202e", "2066", "2069"})
    says("\"scenario\":\"scenario\"", std::string("\"scenario\":\"a\\u") + turn + "b\"",
         "'scenario': expected 1 to 1000 bytes without control characters");
  says("[0.25,0.75]", "[0.25,0]", "'tpot_by_seed_s': expected a number from 1e-12 to 1e+09");
  says("[0.25,0.75]", "[0.25,1e300]", "'tpot_by_seed_s': expected a number from 1e-12 to 1e+09");
  says("\"lru\"", "\"belady\"", "'bound': expected true for the cache policy 'belady'");
  says("\"bound\":false", "\"bound\":true", "'bound': expected false for the cache policy 'lru'");
  says("\"seeds\":2", "\"seeds\":2,\"seeds\":2", "key 'seeds' stands twice in one object");
  says("{\"k\":3.0}", "{\"k\":3.0,\"k\":2}", "key 'k' stands twice in one object");
  says("{\"k\":3.0}", std::string(70, '[') + std::string(70, ']'), "nests deeper");
}

TEST_CASE("a leaderboard takes dates that are, and a stranger's word for what a bound is") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  LeaderboardLine leap = line("a-stranger", 1, 2), clock_ahead = line("lru", 1, 2);
  leap.bound = true;
  leap.date = "2020-02-29T23:59:59Z";
  clock_ahead.date = utc_now(23 * 60 * 60);
  clock_ahead.scenario = "caf\u00e9 \u2013 \u2068";  // a dash, and what begins a right-to-left run
  append_to_leaderboard(file, {leap, clock_ahead});
  const std::vector<LeaderboardLine> read = read_leaderboard(file);
  REQUIRE(read.size() == 2);
  CHECK((read[0].bound && read[0].date == leap.date && read[1].date == clock_ahead.date));
  CHECK(read[1].scenario == "caf\u00e9 \u2013 ???");
}

TEST_CASE("a line says where its policy is from, also one that no file brought") {
  CachePolicyEntry entry = *find_cache_policy("lru");
  entry.info.name = "of-a-class";
  PolicyLibrary brought;
  brought.add(entry);
  add_policies(std::move(brought), "Python class mine.Lru", "0123abcd");
  PolicyComparison c;
  c.family = "cache";
  ComparedPolicy own;
  own.policy = "lru";
  own.by_seed = {{.seconds = 1}};
  ComparedPolicy other = own;
  other.policy = "of-a-class";
  other.library = "Python class mine.Lru";
  ComparedBlock block;
  block.policies = {own, other};
  c.blocks = {block};
  const std::vector<LeaderboardLine> lines = leaderboard_lines(c, "2020-11-30T12:00:00Z");
  take_back_policies("Python class mine.Lru");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].library == "moelab " + program_version());
  CHECK(lines[1].library == "python 0123abcd");
}

TEST_CASE("lines of one setting are ranked, and a policy's latest line counts") {
  LeaderboardLine old = line("lru", 9, 9), again = line("lru", 3, 5), other = line("lru", 1, 1);
  old.date = "2020-11-29T00:00:00Z";
  other.library = "xxh3 0123456789abcdef";
  LeaderboardLine elsewhere = line("lru", 0.5, 0.5), fewer = line("lru", 0.5, 0.5),
                  bound = line("belady", 1, 1);
  elsewhere.budget_bytes = 1e10;
  fewer.first_seed = 2;
  bound.bound = true;
  const auto settings = rank_leaderboard({again, old, bound, line("arc", 2, 4), elsewhere, other, fewer});
  REQUIRE(settings.size() == 3);
  REQUIRE(settings[0].rivals.size() == 3);
  CHECK(settings[0].rivals[0].line.library == other.library);
  CHECK(settings[0].rivals[1].line.policy == "arc");
  CHECK(settings[0].rivals[2].line.mean_s == 4);  // not the older one's 9
  CHECK(settings[0].rivals[1].rank.behind.mean == 2);
  CHECK(settings[0].rivals[2].rank.rank == 3);
  REQUIRE(settings[0].bounds.size() == 1);
  CHECK((settings[1].rivals.size() == 1 && settings[2].rivals.size() == 1));
  // The one that comes last in the file is the later one of one date.
  CHECK(rank_leaderboard({line("lru", 1, 1), line("lru", 2, 2)})[0].rivals[0].line.mean_s == 2);
}

TEST_CASE("programs that append at once each append all that they have") {
  constexpr int kWriters = 6, kTimes = 10;
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  std::vector<pid_t> writers;
  for (int w = 0; w < kWriters; ++w)
    writers.push_back(forked([&] {
      const std::string name = "p" + std::to_string(w);
      for (int i = 0; i < kTimes; ++i) append_to_leaderboard(file, {line(name, 1, 1), line(name, 2, 2)});
    }));
  for (const pid_t writer : writers) {
    int status = 0;
    REQUIRE(::waitpid(writer, &status, 0) == writer);
    CHECK(status == 0);
  }
  const std::vector<LeaderboardLine> all = read_leaderboard(file);
  REQUIRE(all.size() == 2 * kWriters * kTimes);
  for (std::size_t i = 0; i < all.size(); i += 2) {
    CHECK(all[i].policy == all[i + 1].policy);
    CHECK((all[i].mean_s == 1 && all[i + 1].mean_s == 2));
  }
}

TEST_CASE("a program that is killed while it appends leaves whole lines") {
  test::ScratchFolder folder;
  const std::string file = (folder / "board.jsonl").string();
  std::size_t before = 0;
  for (int round = 0; round < 10; ++round) {
    append_to_leaderboard(file, {line("lru", 1, 1)});  // no lock is left by the one killed before
    const pid_t writer = forked([&] {
      for (;;) append_to_leaderboard(file, {line("arc", 1, 1), line("fifo", 2, 2), line("lfu", 3, 3)});
    });
    // Until it has written some lines more, by their bytes: reading all of them each time takes it long
    // ahead.
    const auto long_enough = std::filesystem::file_size(file) *
                             (before + 1 + 3 * static_cast<std::size_t>(1 + round % 3)) / (before + 1);
    while (std::filesystem::file_size(file) < long_enough) {
    }
    ::kill(writer, SIGKILL);
    REQUIRE(::waitpid(writer, nullptr, 0) == writer);
    before = read_leaderboard(file).size();
    CHECK(before % 3 == static_cast<std::size_t>(round + 1) % 3);
  }
}

TEST_CASE("a leaderboard that cannot be written is refused") {
  test::ScratchFolder folder;
  CHECK_THROWS_WITH(append_to_leaderboard((folder / "no/board.jsonl").string(), {line("lru", 1, 1)}),
                    Catch::Matchers::Contains("cannot be written"));
  CHECK_THROWS_AS(append_to_leaderboard(folder.path().string(), {line("lru", 1, 1)}), InputError);
}

}  // namespace moelab::leaderboard_test
