#include "models/name_pattern.hpp"

#include <catch2/catch.hpp>
#include <regex>
#include <string>

#include "models/input_error.hpp"
#include "models/name_list.hpp"
#include "tests/models/random_architecture.hpp"
#include "tests/random_runs.hpp"

namespace moelab::name_pattern_test {
namespace {

bool fits(const std::string& pattern, const std::string& name) {
  return NamePattern::expression(pattern).fits(name);
}

bool fits_wildcard(const std::string& pattern, const std::string& name) {
  return NamePattern::wildcard(pattern).fits(name);
}

std::string refusal(const std::string& pattern) {
  try {
    (void)NamePattern::expression(pattern);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "accepted";
}

TEST_CASE("names: expressions of lists that checkpoints have", "[names]") {
  const std::string dense = R"(.*mlp\.(gate|up|gate_up|down)_proj.*)";  // of Kimi-K2-Thinking
  CHECK(fits(dense, "model.layers.0.mlp.down_proj"));
  CHECK(fits(dense, "model.layers.0.mlp.gate_up_proj"));
  CHECK_FALSE(fits(dense, "model.layers.3.mlp.experts.0.down_proj"));
  CHECK_FALSE(fits(dense, "model.layers.3.mlp.shared_experts.down_proj"));
  CHECK(fits(".*mlp.gate$", "model.layers.7.mlp.gate"));
  CHECK_FALSE(fits(".*mlp.gate$", "model.layers.7.mlp.gate_proj"));
  CHECK(fits(".*layers\\.[0-2]\\..*", "model.layers.2.mlp.up_proj"));
  CHECK_FALSE(fits(".*layers\\.[0-2]\\..*", "model.layers.3.mlp.up_proj"));
  CHECK(fits(".*layers\\.\\d+\\.self_attn\\.(?:q|k|v|o)_proj$", "model.layers.61.self_attn.k_proj"));
  CHECK(fits("lm_head", "lm_head.weight"));       // from the beginning, not to the end
  CHECK_FALSE(fits("lm_head", "model.lm_head"));  // but from the beginning
  CHECK(fits(".*shared_expert_?gate?", "a.shared_expert_gate"));
  CHECK(fits("[^.]+\\.[a-z_]+$", "model.embed_tokens"));
  CHECK(fits("", "anything"));
}

TEST_CASE("names: wildcards fit whole names", "[names]") {
  CHECK(fits_wildcard("model.layers.*.self_attn*", "model.layers.12.self_attn.q_proj"));
  CHECK_FALSE(fits_wildcard("model.layers.*.self_attn", "model.layers.12.self_attn.q_proj"));
  CHECK(fits_wildcard("*.mlp.experts.[0-3].*", "model.layers.1.mlp.experts.2.up_proj"));
  CHECK_FALSE(fits_wildcard("*.mlp.experts.[!0-3].*", "model.layers.1.mlp.experts.2.up_proj"));
  CHECK(fits_wildcard("layer?", "layer1"));
  CHECK_FALSE(fits_wildcard("layer.1", "layer11"));  // a dot is a dot
  CHECK(fits_wildcard("a[b", "a[b"));
}

// Another implementation: the standard library's, on patterns that are short enough for it.
TEST_CASE("names: random expressions fit what the standard library's fit", "[names]") {
  test::Dice dice(11);
  const std::vector<std::string> pieces{"a",     "b",       ".",   "ab",  "[ab]",   "[^a]",
                                        "(a|b)", "(ab|c)*", "\\.", "\\d", "(?:b|)", "c+",
                                        "a*",    "b?",      ".*",  "$",   "^",      "(a|(b|c)d)+"};
  int fitted = 0;
  for (int i = 0; i < moelab::test::random_runs(3000); ++i) {
    std::string pattern, name;
    for (int n = dice.from(0, 4); n > 0; --n)
      pattern += pieces[static_cast<std::size_t>(dice.from(0, static_cast<int>(pieces.size()) - 1))];
    for (int n = dice.from(0, 6); n > 0; --n) name += "abcd.1"[dice.from(0, 5)];
    const bool expected =
        std::regex_search(name, std::regex(pattern), std::regex_constants::match_continuous);
    INFO(pattern << " on '" << name << "'");
    REQUIRE(fits(pattern, name) == expected);
    fitted += expected ? 1 : 0;
  }
  CHECK(fitted > moelab::test::random_runs(300));
}

TEST_CASE("names: what is no expression, or more than is covered, is refused by name", "[names]") {
  CHECK(refusal("(a").find("'(' without ')'") != std::string::npos);
  CHECK(refusal("a)").find("')' without '('") != std::string::npos);
  CHECK(refusal("[a").find("'[' without ']'") != std::string::npos);
  CHECK(refusal("[b-a]").find("empty range") != std::string::npos);
  CHECK(refusal("*a").find("nothing to repeat") != std::string::npos);
  CHECK(refusal("a**").find("repeats a repetition") != std::string::npos);
  CHECK(refusal("a{2,3}").find("counts in braces") != std::string::npos);
  CHECK(refusal("^(?!.*experts).*").find("look-around") != std::string::npos);
  CHECK(refusal("(?i)abc").find("a flag") != std::string::npos);
  CHECK(refusal("(a)\\1").find("'\\1'") != std::string::npos);
  CHECK(refusal("\\bgate").find("'\\b'") != std::string::npos);
  CHECK(refusal("a\\").find("backslash") != std::string::npos);
  CHECK(refusal(std::string(1001, 'a')).find("longer than 1000") != std::string::npos);
  CHECK(refusal(std::string(200, '(') + std::string(200, ')')).find("nests groups deeper") !=
        std::string::npos);
  CHECK(refusal("a+?b*?c??") == "accepted");  // lazy: what fits is the same
}

TEST_CASE("names: no pattern takes long", "[names]") {
  // A backtracking matcher would take 2^2000 steps, and this test would not end.
  const std::string name(2000, 'a');
  for (const char* pattern : {"(a*)*b", "((a+)+)+b", "(a|a|aa)*b", "(.*)*(.*)*(.*)*b", "(((a?)*)*)*b"})
    CHECK_FALSE(fits(pattern, name));
  CHECK_FALSE(fits_wildcard(std::string(100, '*') + "b", name));
}

TEST_CASE("names: lists, by whole names and by parts of them", "[names]") {
  const NameList exact(NameList::Rule::exact, {"lm_head", "re:.*gate$", "model.layers.0"});
  CHECK(exact.find("lm_head") == 0);
  CHECK(exact.find("model.layers.3.mlp.gate") == 1);
  CHECK(exact.find("model.layers.0.mlp.up_proj") == NameList::npos);  // the whole name
  CHECK(exact.used(0));
  CHECK_FALSE(exact.used(2));
  const NameList part(NameList::Rule::part, {"lm_head", "model.layers.1", "self_attn", "*.w1"});
  CHECK(part.find("model.layers.1.mlp.up_proj") == 1);
  CHECK(part.find("model.layers.10.mlp.up_proj") == NameList::npos);  // words, not letters
  CHECK(part.find("model.layers.10.self_attn.q_proj") == 2);
  CHECK(part.find("model.layers.10.mlp.experts.3.w1") == 3);
  CHECK(NameList(NameList::Rule::part, {}).find("a") == NameList::npos);
  CHECK_THROWS_AS(NameList(NameList::Rule::exact, {"re:(a"}), InputError);
  const auto apart = [](const char* entry) {
    return NameList(NameList::Rule::exact, {entry}).tells_experts_apart();
  };
  CHECK(apart("model.layers.0.mlp.experts.0.up_proj"));
  CHECK(apart("re:.*experts\\.(1|2)\\..*"));
  CHECK(apart("re:.*experts.[0-3].*"));
  CHECK_FALSE(apart("re:.*experts\\.\\d+\\.up_proj"));
  CHECK_FALSE(apart("re:.*experts.*"));
  CHECK_FALSE(apart("re:.*shared_experts.up_proj"));
}

}  // namespace
}  // namespace moelab::name_pattern_test
