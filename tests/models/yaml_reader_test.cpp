#include "models/yaml_reader.hpp"
#include "models/json.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::yaml_reader_test {
namespace {

constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Range<double> any_number{-infinity, infinity};

/// A reader of one key of each kind.
void read_sample(const YamlMap& root) {
  static const std::vector<std::string> policies = {"lru", "fifo", "belady"};
  root.text("name", "x");
  root.integer("count", 1, 64, 2);
  root.number("share", {0, 1, true, false}, 0.5);
  root.boolean("shared", false);
  root.choice("policy", policies, 0);
  root.quantity<Seconds>("latency", at_least(Seconds(0)), Seconds(1));
  root.quantity<Bytes>("memory", above(Bytes(0)), Bytes(1));
  root.quantity<Flops>("work", at_least(Flops(0)), Flops(1));
  root.quantity<FlopsPerSecond>("compute", {FlopsPerSecond(1e9), FlopsPerSecond(1e15)}, FlopsPerSecond(1e9));
  for (const YamlNode& item : root.list_or_empty("sizes")) item.quantity<Bytes>("a size", above(Bytes(0)));
  if (const auto ssd = root.optional_map("ssd")) {
    ssd->quantity<BytesPerSecond>("bandwidth", above(BytesPerSecond(0)));
    ssd->integer("queue", lowest, highest, 1);
    ssd->done();
  }
  root.done();
}

std::vector<Problem> problems_of(const std::string& text,
                                 const std::function<void(const YamlMap&)>& read = read_sample) {
  Problems problems;
  read(YamlDocument::from_text("in.yaml", text, problems).root());
  return problems.all();
}

struct Bad {
  std::string text;
  int line;
  std::string fragment;
};

void check_single_problem(const Bad& bad) {
  const std::vector<Problem> problems = problems_of(bad.text);
  INFO("document:\n" << bad.text.substr(0, 300));
  for (const Problem& problem : problems) UNSCOPED_INFO("problem: " << to_string(problem));
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].file == "in.yaml");
  CHECK(problems[0].line == bad.line);
  CHECK(problems[0].what.find(bad.fragment) != std::string::npos);
}

std::string repeated(const std::string& piece, std::size_t times) {
  std::string text;
  text.reserve(piece.size() * times);
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

}  // namespace

TEST_CASE("a well-formed document is read as it stands") {
  Problems problems;
  const YamlDocument document = YamlDocument::from_text("in.yaml", R"(# a comment
name: "8x7b: it's"
plain: 010
count: -12
share: 2.5e-1
shared: true
policy: belady
latency: 900 us
memory: "64GiB"
rate: 3.5 GB/s
work: 2 GFLOP
compute: 42.5 TFLOP/s
sizes: [4 KiB, 1 MiB]
block:
  - a
  - b
ssd: {queue: 9223372036854775807, floor: -9223372036854775808}
nothing:
)",
                                                        problems);
  const std::vector<std::string> policies = {"lru", "fifo", "belady"};
  const YamlMap root = document.root();
  CHECK(document.name() == "in.yaml");
  CHECK(root.text("name") == "8x7b: it's");
  CHECK(root.text("plain") == "010");  // a text is never reinterpreted
  CHECK(root.integer("count", lowest, highest) == -12);
  CHECK(root.number("share", any_number) == 0.25);
  CHECK(root.boolean("shared"));
  CHECK(root.choice("policy", policies) == 2);
  CHECK(root.quantity<Seconds>("latency", at_least(Seconds(0))) == Seconds(900e-6));
  CHECK(root.quantity<Bytes>("memory", at_least(Bytes(0))) == Bytes(0x1p36));
  CHECK(root.quantity<BytesPerSecond>("rate", above(BytesPerSecond(0))) == BytesPerSecond(3.5e9));
  CHECK(root.quantity<Flops>("work", at_least(Flops(0))) == Flops(2e9));
  CHECK(root.quantity<FlopsPerSecond>("compute", at_least(FlopsPerSecond(0))) == FlopsPerSecond(42.5e12));
  const std::vector<YamlNode> sizes = root.list("sizes");
  REQUIRE(sizes.size() == 2);
  CHECK(sizes[1].quantity<Bytes>("size", at_least(Bytes(0))) == Bytes(1048576));
  CHECK(sizes[1].line() == 13);
  CHECK(root.list("block")[1].text("item") == "b");
  const YamlMap ssd = root.map("ssd");
  CHECK(ssd.integer("queue", lowest, highest) == highest);
  CHECK(ssd.integer("floor", lowest, highest) == lowest);
  CHECK(ssd.keys() == std::vector<std::string>{"queue", "floor"});
  CHECK(root.node("nothing").is_null());
  CHECK(root.node("nothing").is_scalar());
  CHECK(root.node("ssd").is_map());
  CHECK(root.node("sizes").is_list());
  CHECK(root.line() == 2);
  CHECK_FALSE(root.has("absent"));
  CHECK_FALSE(root.optional_map("absent").has_value());
  CHECK(root.list_or_empty("absent").empty());
  CHECK(root.integer("absent", 1, 2, 7) == 7);
  CHECK(root.text("absent", "fallback") == "fallback");
  CHECK(root.quantity<Seconds>("absent", at_least(Seconds(0)), Seconds(3)) == Seconds(3));
  ssd.done();
  root.done();
  for (const Problem& problem : problems.all()) UNSCOPED_INFO(to_string(problem));
  CHECK(problems.empty());
  CHECK_NOTHROW(problems.throw_if_any());
}

TEST_CASE("each mistake is one problem, at its line, with what was expected") {
  // Lines are counted by hand in the texts.
  const std::vector<Bad> table = {
      // names
      {"name: a\npolcy: lru\n", 2, "unknown key 'polcy' (did you mean 'policy'?)"},
      {"ssd:\n  bandwidth: 1 GB/s\n  qeue: 3\n", 3, "unknown key 'qeue' in ssd (did you mean 'queue'?)"},
      {"ssd:\n  bandwidth: 1 GB/s\n  xyzzy: 3\n", 3, "unknown key 'xyzzy' in ssd (known: bandwidth, queue)"},
      {"<<: {name: a}\n", 1, "unknown key '<<'"},
      {"name: a\n\nname: b\n", 3, "key 'name' is given twice; first on line 1"},
      {"{name: a,\n 'name': {x: [1]}}", 2, "key 'name' is given twice; first on line 1"},
      {"name: a\nssd: {}\n", 2, "missing key 'bandwidth' in ssd"},
      {"policy: lruu\n", 1, "'lruu' for policy is not a known name (did you mean 'lru'?)"},
      {"policy: optimal\n", 1, "(known: lru, fifo, belady)"},
      // types
      {"name:\n  a: 1\n", 2, "name is a map; expected a text"},
      {"name: [1]\n", 1, "name is a list; expected a text"},
      {"name:\ncount: 1\n", 2, "name has no value; expected a text"},
      {"name: ~\n", 1, "name has no value"},
      {"name: null\n", 1, "name has no value"},
      {"sizes: 4 KiB\n", 1, "'4 KiB' for sizes is a single value; expected a list"},
      {"ssd: [1]\n", 1, "ssd is a list; expected a map"},
      {"ssd: fast\n", 1, "'fast' for ssd is a single value; expected a map"},
      {"shared: yes\n", 1, "'yes' for shared is not understood; expected true or false"},
      {"shared: True\n", 1, "expected true or false"},
      {"shared: 'true'\n", 1, "is a text; expected true or false"},
      // whole numbers: what yaml-cpp itself would take for 8, 16 or a failure without a name
      {"count: 010\n", 1, "'010' for count is not understood; expected a whole number in decimal digits"},
      {"count: 0x10\n", 1, "expected a whole number"},
      {"count: 1e1\n", 1, "expected a whole number"},
      {"count: 3.0\n", 1, "expected a whole number"},
      {"count: 3 4\n", 1, "expected a whole number"},
      {"count: +3\n", 1, "expected a whole number"},
      {"count: 1_000\n", 1, "expected a whole number"},
      {"count: '3'\n", 1, "'3' for count is a text; expected a whole number"},
      {"count: three\n", 1, "expected a whole number in decimal digits from 1 to 64"},
      {"count: 0\n", 1, "'0' for count is out of range; expected a value from 1 to 64"},
      {"count: 65\n", 1, "out of range"},
      {"count: 9223372036854775808\n", 1, "'9223372036854775808' for count is out of range"},
      {"count: -99999999999999999999\n", 1, "out of range"},
      // numbers
      {"share: 0\n", 1, "'0' for share is out of range; expected a value more than 0 and at most 1"},
      {"share: 1.0001\n", 1, "out of range"},
      {"share: .nan\n", 1, "expected a number"},
      {"share: nan\n", 1, "expected a number"},
      {"share: .inf\n", 1, "expected a number"},
      {"share: inf\n", 1, "expected a number"},
      {"share: 1e999\n", 1, "expected a number"},
      {"share: 0.5x\n", 1, "expected a number"},
      {"share: 00.5\n", 1, "expected a number"},
      {"share: \"0.5\"\n", 1, "'0.5' for share is a text; expected a number more than 0 and at most 1"},
      // quantities
      {"ssd:\n  bandwidth: 3500\n", 2,
       "'3500' for ssd.bandwidth has no unit; expected a rate with a unit, such as '3.5 GB/s'"},
      {"ssd: {bandwidth: \"3500\"}\n", 1, "has no unit"},
      {"ssd: {bandwidth: 3.5 GB}\n", 1, "'3.5 GB' for ssd.bandwidth is not understood; expected a rate"},
      {"ssd: {bandwidth: [1]}\n", 1, "ssd.bandwidth is a list; expected a rate"},
      {"ssd: {bandwidth: 0 B/s}\n", 1, "out of range; expected a value more than 0 B/s"},
      {"latency: 0\n", 1, "'0' for latency has no unit"},
      {"latency: -1 us\n", 1, "out of range; expected a value at least 0 s"},
      {"compute: 1 PFLOP\n", 1, "expected a compute rate"},
      {"compute: 2 PFLOP/s\n", 1, "expected a value from 1 GFLOP/s to 1 PFLOP/s"},
      {"sizes:\n  - 1 KiB\n  - 2\n", 3, "'2' for a size has no unit"},
      // the document
      {"", 0, "the document is empty; expected a map"},
      {"# only this\n", 0, "the document is empty"},
      {"- a\n- b\n", 1, "the document is a list; expected a map"},
      {"just words\n", 1, "'just words' for the document is a single value; expected a map"},
      {"name: a\n---\nname: b\n", 2, "a second document"},
      {"name: &x a\n", 1, "an anchor"},
      {"name: a\n*x : b\n", 2, "not valid YAML: the referenced anchor is not defined"},
      {"name: &x a\nssd: *x\n", 1, "an anchor"},
      {"name: !!str a\n", 1, "a tag"},
      {"sizes: !mine [1 B]\n", 1, "a tag"},
      {"%YAML 1.2\n---\nname: a\n", 1, "directive"},
      {"name: a\n? [x, y]\n: b\n", 2, "a list or map where a key is expected"},
      {"name: a\n~: b\n", 2, "a key is missing"},
      {"name: [a, b\n", 0, ""},
      {"name: 'a\n", 2, "not valid YAML: illegal EOF in scalar"},
      {"name: 'a\ncount: 3\n\n\n", 5, "not valid YAML: illegal EOF in scalar"},
      {"name: \"a\ncount: 3", 3, "not valid YAML: illegal EOF in scalar"},
      {"name: a\ncount 3\nshare: 1\n", 3, "not valid YAML"},
      {"name: a\n\tcount: 3\n", 2, "not valid YAML"},
      {"name: a\nshare: @\n", 2, "not valid YAML"},
      {"name: \"\\q\"\n", 1, "not valid YAML"},
      {std::string("name: a\ncount: \x04 3\n"), 2, "control character"},
      {std::string("name: a\0b\n", 10), 1, "control character"},
      {"name: a\nshare: \xff\n", 2, "not UTF-8"},
      {"name: \xed\xa0\x80\n", 1, "not UTF-8"},  // a surrogate
      {"name: \xc0\xaf\n", 1, "not UTF-8"},      // overlong
      {"name: \xc3", 1, "not UTF-8"},
      {std::string("\xff\xfen\0a\0", 6), 1, "not UTF-8"},
  };
  for (const Bad& bad : table) {
    if (bad.fragment.empty()) {
      CHECK(problems_of(bad.text).size() == 1);  // which bracket is meant cannot be said
    } else {
      check_single_problem(bad);
    }
  }
}

TEST_CASE("UTF-8 ends where the standard says, at every length") {
  // RFC 3629: two bytes from U+0080, here U+00A0; three from U+0800 without the surrogates; four to U+10FFFF.
  for (const std::string letter : {"~", "\xc2\xa0", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                   "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    INFO("'" << letter << "'");
    CHECK(problems_of("name: a" + letter + "b\n").empty());
  }
  for (const char* const bytes : {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
                                  "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3\xc3"})
    check_single_problem({"name: a" + std::string(bytes) + "b\n", 1, "not UTF-8"});
}

TEST_CASE("all problems are said at once, in the order of the file") {
  Problems problems;
  const auto read = [&](const std::string& text) {
    read_sample(YamlDocument::from_text("b.yaml", text, problems).root());
  };
  read("shraed: 1\ncount: 99\nname: []\nssd: {bandwidth: 2, bandwidth: 3 GB/s}\n");
  problems.add({"a.yaml", 9, 0, "of another file"});
  std::vector<int> lines;
  try {
    problems.throw_if_any();
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) lines.push_back(problem.line);
    const std::string message = error.what();
    CHECK(message.find("a.yaml:9: of another file\nb.yaml:1:1: unknown key 'shraed'") == 0);
    CHECK(std::count(message.begin(), message.end(), '\n') == 5);
  }
  CHECK(lines == std::vector<int>{9, 1, 2, 3, 4, 4});
}

TEST_CASE("after a problem reading goes on with a harmless value and no second problem") {
  const auto read = [](const YamlMap& root) {
    const YamlMap gone = root.map("gone");
    CHECK(gone.map("deeper").integer("count", 4, 9) == 4);  // 1 is outside: the nearest bound
    CHECK(gone.number("share", {0, 1}) == 1);
    CHECK(gone.number("share", {0, 1, true, true}) == 0.5);
    CHECK(gone.number("share", {5, infinity, true, false}) == 6);
    CHECK(gone.quantity<Bytes>("size", at_least(Bytes(0))) == Bytes(1));
    CHECK(gone.text("name").empty());
    CHECK(gone.list("items").empty());
    CHECK(gone.keys().empty());
    gone.fail("share", "a consequence");
    gone.node("x").fail("a consequence");
    gone.done();
    root.done();
  };
  CHECK(problems_of("{}", read).size() == 1);       // missing
  CHECK(problems_of("gone: 3", read).size() == 1);  // not a map
  CHECK(problems_of("gone: [", read).size() == 1);  // not YAML
  CHECK(problems_of("[]", read).size() == 1);       // root not a map
  const auto wrong_value = [](const YamlMap& root) {
    CHECK(root.integer("count", 2, 9, 5) == 5);  // the fallback, if there is one
    CHECK(root.integer("count", 2, 9) == 2);
    CHECK(root.integer("count", -9, -2) == -2);
  };
  CHECK(problems_of("count: many", wrong_value).size() == 3);
}

TEST_CASE("fail() puts the caller's problem at the key, or at the map") {
  const auto read = [](const YamlMap& root) {
    root.fail("top_k", "is more than experts");
    root.fail("absent", "is needed");
    root.node("list").fail("is odd");
    root.map("map").fail("absent", "is needed here");
  };
  const std::vector<Problem> problems = problems_of("a: 1\n  \ntop_k: 3\nlist:   [1]\nmap:\n  x: 1\n", read);
  REQUIRE(problems.size() == 4);
  CHECK(to_string(problems[0]) == "in.yaml:3:1: is more than experts");
  CHECK(to_string(problems[1]) == "in.yaml:1:1: is needed");
  CHECK(to_string(problems[2]) == "in.yaml:4:9: is odd");
  CHECK(to_string(problems[3]) == "in.yaml:6:3: is needed here");
}

TEST_CASE("long and unprintable values are cut in messages") {
  const std::vector<Problem> problems =
      problems_of("count: \"" + repeated("\xc3\xa9", 1000) + "\"\nshare: \"a\\nb\\e\"\n");
  REQUIRE(problems.size() == 2);
  CHECK(problems[0].what.find("'" + repeated("\xc3\xa9", 30) + "...' for count") == 0);
  CHECK(problems[1].what.find("'a b ' for share") == 0);
  // Byte 60 is the second one of a character, which is left out whole.
  const std::vector<Problem> odd = problems_of("count: \"x" + repeated("\xc3\xa9", 1000) + "\"\n");
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].what.find("'x" + repeated("\xc3\xa9", 29) + "...' for count") == 0);
}

TEST_CASE("set() replaces and adds values by dotted path") {
  Problems problems;
  YamlDocument document = YamlDocument::from_text(
      "in.yaml", "name: a\nsystems:\n  - cache: {policy: fifo}\n  - x\nempty:\n", problems);
  document.set("name", "b");
  document.set("systems.0.cache.policy", "lru");
  document.set("systems.1", "{deep: [1, 2]}");
  document.set("systems.1.deep.1", "5 GB");
  document.set("new.inner.key", "3.5 GB/s");
  document.set("empty.now", "[]");
  document.set("quoted", "'12'");
  document.set("void", "");
  const YamlMap root = document.root();
  CHECK(root.text("name") == "b");
  const std::vector<YamlNode> systems = root.list("systems");
  REQUIRE(systems.size() == 2);
  CHECK(systems[0].map("").map("cache").text("policy") == "lru");
  CHECK(systems[1].map("").list("deep")[0].integer("", 0, 9) == 1);
  CHECK(systems[1].map("").list("deep")[1].quantity<Bytes>("", at_least(Bytes(0))) == Bytes(5e9));
  CHECK(root.map("new").map("inner").text("key") == "3.5 GB/s");
  CHECK(root.map("empty").list("now").empty());
  CHECK(root.text("quoted") == "12");
  CHECK(root.node("void").is_null());
  root.done();
  CHECK(problems.empty());
  CHECK(root.keys() == std::vector<std::string>{"name", "systems", "empty", "new", "quoted", "void"});
}

TEST_CASE("what is wrong with set() or with its value names the path") {
  const auto problem_after = [](const std::string& path, const std::string& value) {
    Problems problems;
    YamlDocument document = YamlDocument::from_text("in.yaml", "name: a\nsizes: [1 B]\n", problems);
    document.set(path, value);
    read_sample(document.root());
    REQUIRE(problems.all().size() == 1);
    return to_string(problems.all()[0]);
  };
  CHECK(problem_after("name.x", "1") == "in.yaml (with name.x='1'): name is a single value; it has no 'x'");
  CHECK(problem_after("sizes.1", "1 B") ==
        "in.yaml (with sizes.1='1 B'): sizes is a list of 1; it has no item '1'");
  CHECK(problem_after("sizes.x", "1 B").find("it has no item 'x'") != std::string::npos);
  CHECK(problem_after("sizes.-1", "1 B").find("it has no item '-1'") != std::string::npos);
  CHECK(problem_after("sizes.0", "7") ==
        "in.yaml (with sizes.0='7'): '7' for a size has no unit; expected a size with a unit, such as '64 "
        "GiB'");
  CHECK(problem_after("count", "[1").find("in.yaml (with count='[1'): ") == 0);
  CHECK(problem_after("ssd", "{bandwidth: 1 B/s, bandwidth: 1 B/s}").find("is given twice") !=
        std::string::npos);
  CHECK(problem_after("ssd", "{bandwidth: 7}").find("'7' for ssd.bandwidth has no unit") !=
        std::string::npos);
  CHECK(problem_after("polcy", "lru").find("(did you mean 'policy'?)") != std::string::npos);
  for (const std::string path : {"", ".", "a.", ".a", "a..b"}) {
    CHECK(problem_after(path, "1").find("is not a path") != std::string::npos);
  }
  CHECK(problem_after(repeated("a.", 100) + "a", "1").find("is not a path") != std::string::npos);
}

TEST_CASE("set() on a document that could not be read adds no problem") {
  Problems problems;
  YamlDocument document = YamlDocument::from_text("in.yaml", "a: ]", problems);
  document.set("a.b", "1");
  CHECK(document.root().keys().empty());
  CHECK(problems.all().size() == 1);
  // An empty document is fine to begin with.
  Problems none;
  YamlDocument empty = YamlDocument::from_text("in.yaml", "", none);
  empty.set("a.b", "1");
  CHECK(empty.root().map("a").integer("b", 1, 1) == 1);
  CHECK(none.empty());
}

TEST_CASE("64 levels are read, the 65th is a problem") {
  const auto nested = [](std::size_t levels, const std::string& open, const std::string& close) {
    return "a: " + repeated(open, levels - 1) + "1" + repeated(close, levels - 1);
  };
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"[", "]"}, {"{b: ", "}"}, {"[{b: ", "}]"}}) {
    const std::size_t each = open.size() == 5 ? 2 : 1;  // levels that a piece opens
    Problems good;
    YamlNode node = YamlDocument::from_text("x", nested(1 + 63 / each, open, close), good).root().node("a");
    CHECK(good.empty());
    std::size_t depth = 1;
    for (; !node.is_scalar(); ++depth) node = node.is_list() ? node.list("")[0] : node.map("").node("b");
    CHECK(depth == 1 + 63 / each * each);
    Problems bad;
    YamlDocument::from_text("x", nested(65, open, close), bad);
    REQUIRE(bad.all().size() == 1);
    CHECK(bad.all()[0].what == "nests deeper than 64 levels");
  }
  Problems block;
  YamlDocument::from_text("x", repeated("- ", 64) + "a", block);
  CHECK(block.empty());
  YamlDocument::from_text("x", repeated("- ", 65) + "a", block);
  CHECK(block.all().size() == 1);
}

TEST_CASE("hostile texts end in a problem, quickly") {
  const std::size_t many = 50000;
  std::vector<std::string> texts;
  for (const char* piece :
       {"[",    "{",     "- ", "? ",  ": ",   "[:",  "{? ",  "[a: ",   "!a ", "&a ", "*a ", "'",  "\"",
        "--- ", "---\n", "| ", ">\n", "a: {", "- [", "? - ", "a: &b ", "}",   "]",   "[? ", "{[", "<<: {"}) {
    texts.push_back(repeated(piece, many));
    texts.push_back("a: " + repeated(piece, many));
    texts.push_back("a: [" + repeated(piece, many));
  }
  std::string steps;
  for (std::size_t i = 0; i < 300; ++i) steps += std::string(i, ' ') + "a:\n";
  texts.push_back(steps);
  texts.push_back(repeated("a: 1\n", 2000));
  texts.push_back("[" + repeated("1,", std::size_t{1} << 21));  // too much structure
  texts.push_back(std::string((std::size_t{64} << 20) + 1, ' '));
  for (const std::string& text : texts) {
    INFO(text.substr(0, 40));
    CHECK_FALSE(problems_of(text).empty());
  }
}

TEST_CASE("a file is read from disk, or why not is a problem") {
  namespace fs = std::filesystem;
  const test::ScratchFolder folder;
  const auto problem_of = [](const fs::path& path) {
    Problems problems;
    read_sample(YamlDocument::from_file(path, problems).root());
    return problems.all().size() == 1 ? to_string(problems.all()[0]) : "";
  };
  std::ofstream(folder / "good.yaml") << "\xef\xbb\xbfname: a\r\ncount: 3\r\n";  // byte-order mark, CR LF
  Problems problems;
  const YamlDocument document = YamlDocument::from_file(folder / "good.yaml", problems);
  CHECK(document.root().integer("count", 0, 9) == 3);
  CHECK(document.root().text("name") == "a");
  CHECK(document.name() == (folder / "good.yaml").string());
  CHECK(problems.empty());
  CHECK(problem_of(folder / "none.yaml") ==
        (folder / "none.yaml").string() + ": cannot be opened: No such file or directory");
  CHECK(problem_of(folder.path()) == folder.path().string() + ": is a folder; expected a file");
  if (fs::exists("/dev/zero"))
    CHECK(problem_of("/dev/zero").find("is a pipe or a device") != std::string::npos);
}

namespace {

nlohmann::json random_json(std::mt19937_64& random, int depth) {
  static const std::vector<std::string> texts = {"",     "a",        "12",   "true", "null", "3.5 GB/s",
                                                 "a: b", "- x",      "# no", "{",    "x\ny", "\"q\"",
                                                 "\\",   "\xc3\xa9", "'",    "~"};
  switch (random() % (depth > 0 ? 8 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random()) >> (random() % 64);
    case 3:
      return std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                        -4 - static_cast<int>(random() % 75));  // within physical bounds
    case 4:
      return texts[random() % texts.size()];
    case 5: {
      nlohmann::json list = nlohmann::json::array();
      for (std::uint64_t i = random() % 5; i > 0; --i) list.push_back(random_json(random, depth - 1));
      return list;
    }
    default: {
      nlohmann::json map = nlohmann::json::object();
      for (std::uint64_t i = random() % 5; i > 0; --i) {
        map[std::string("k").append(texts[random() % texts.size()])] = random_json(random, depth - 1);
      }
      return map;
    }
  }
}

/// Compares a node with what another parser made of the same text.
void check_same(const YamlNode& node, const nlohmann::json& json) {
  if (json.is_object()) {
    REQUIRE(node.is_map());
    const YamlMap map = node.map("");
    REQUIRE(map.keys().size() == json.size());
    for (const auto& [key, value] : json.items()) check_same(map.node(key), value);
    map.done();
  } else if (json.is_array()) {
    const std::vector<YamlNode> items = node.list("");
    REQUIRE(items.size() == json.size());
    for (std::size_t i = 0; i < items.size(); ++i) check_same(items[i], json[i]);
  } else if (json.is_null()) {
    REQUIRE(node.is_null());
  } else if (json.is_boolean()) {
    REQUIRE(node.boolean("") == json.get<bool>());
  } else if (json.is_number_integer()) {
    REQUIRE(node.integer("", lowest, highest) == json.get<std::int64_t>());
  } else if (json.is_number()) {
    REQUIRE(node.number("", any_number) == json.get<double>());
  } else {
    REQUIRE(node.text("") == json.get<std::string>());
  }
}

/// Asks everything of every node.
void walk(const YamlNode& node) {
  node.text("");
  node.number("", {0, 1});
  node.integer("", 0, 1);
  node.boolean("");
  node.quantity<Bytes>("", at_least(Bytes(0)));
  for (const YamlNode& item : node.list("")) walk(item);
  const YamlMap map = node.map("");
  for (const std::string& key : map.keys()) walk(map.node(key));
  map.done();
}

}  // namespace

TEST_CASE("JSON is read as another JSON library reads it") {
  std::mt19937_64 random(7);
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    nlohmann::json json = {{"root", random_json(random, 5)}};
    const std::string text = json.dump(random() % 2 == 0 ? -1 : 2);
    INFO(text);
    Problems problems;
    const YamlDocument document = YamlDocument::from_text("in.json", text, problems);
    check_same(document.node(), nlohmann::json::parse(text));
    REQUIRE(problems.empty());
  }
}

TEST_CASE("no damaged document crashes the reader") {
  const std::string sound = R"(# A sample with most of YAML in it.
name: "8x7b \"it's\" \u00e9"
count: 12
share: 2.5e-1
policy: 'lru'
latency: 900 us
sizes: [4 KiB, {a: 1, "b": [x, y]}, 1 MiB]
block:
  - a: 1
    b: |
      some text
      more
  - - nested
    - >-
      folded
ssd: {bandwidth: 3.5 GB/s, queue: 4}
)";
  const std::string marks = "[]{},:?-&*!|>'\"%@`#~ \n\t\\a0\x04\xff\xc3";
  std::mt19937_64 random(11);
  std::size_t accepted = 0;
  for (int i = 0; i < moelab::test::random_runs(10000); ++i) {
    std::string text = sound;
    for (std::uint64_t edits = 1 + random() % 8; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char mark =
          random() % 8 == 0 ? static_cast<char>(random() % 256) : marks[random() % marks.size()];
      switch (random() % 4) {
        case 0:
          text[at] = mark;
          break;
        case 1:
          text.insert(at, 1, mark);
          break;
        case 2:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
      if (text.empty()) text.push_back('a');
    }
    Problems problems;
    const YamlDocument document = YamlDocument::from_text("in.yaml", text, problems);
    accepted += problems.empty() ? 1 : 0;
    walk(document.node());
    read_sample(document.root());
    for (const Problem& problem : problems.all()) {
      REQUIRE(problem.line <=
              std::count(text.begin(), text.end(), '\n') + std::count(text.begin(), text.end(), '\r') + 2);
    }
  }
  CHECK(accepted >
        moelab::test::random_runs(500));  // the damage is not so great that only the first check is exercised
  CHECK(accepted < moelab::test::random_runs(9500));
}

TEST_CASE("a problem shows the parts of its place that are known") {
  CHECK(to_string(Problem{"f", 3, 5, "w"}) == "f:3:5: w");
  CHECK(to_string(Problem{"f", 3, 0, "w"}) == "f:3: w");
  CHECK(to_string(Problem{"f", 0, 5, "w"}) == "f: w");
  CHECK(to_string(Problem{"", 0, 0, "w"}) == "w");
  CHECK(InputError("f", "w").problems().at(0).file == "f");
}

}  // namespace moelab::yaml_reader_test
