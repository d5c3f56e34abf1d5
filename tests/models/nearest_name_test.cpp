// The name that a misspelt one is told to mean.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "models/input_error.hpp"
#include "tests/random_runs.hpp"

namespace moelab::nearest_name_test {
namespace {

std::size_t edit_distance_by_definition(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const std::string_view a_rest = a.substr(1);
  const std::string_view b_rest = b.substr(1);
  std::size_t least = (a[0] == b[0] ? 0 : 1) + edit_distance_by_definition(a_rest, b_rest);
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0])
    least = std::min(least, 1 + edit_distance_by_definition(a.substr(2), b.substr(2)));
  return std::min(
      {least, 1 + edit_distance_by_definition(a, b_rest), 1 + edit_distance_by_definition(a_rest, b)});
}

/// Whether a name of the letters a and b and of '-' has the letters of another in their order.
bool in_order(const std::string& name, const std::string& letters) {
  std::string pattern = ".*";
  for (const char c : letters)
    if (c != '-') pattern += std::string(1, c) + ".*";
  return std::regex_match(name, std::regex(pattern));
}

}  // namespace

TEST_CASE(
    "nearest name: the smallest edit distance, if near, and of equals the one with the letters in order") {
  const std::string letters = "ab-";
  std::mt19937_64 random(5);
  const auto word = [&] {
    std::string text;
    for (std::uint64_t length = random() % 7; length > 0; --length)
      text += letters[random() % letters.size()];
    return text;
  };
  std::size_t near = 0;
  for (int i = 0; i < moelab::test::random_runs(4000); ++i) {
    const std::string name = word();
    std::vector<std::string> known;
    for (std::uint64_t count = random() % 5; count > 0; --count) known.push_back(word());
    std::string expected;
    std::size_t smallest = 99;
    for (const std::string& candidate : known) {
      const std::size_t distance = edit_distance_by_definition(name, candidate);
      if (3 * distance > std::max(name.size(), candidate.size()) || distance > smallest) continue;
      const bool better = distance < smallest || (!in_order(expected, name) && in_order(candidate, name));
      if (!better) continue;
      smallest = distance;
      expected = candidate;
    }
    near += expected.empty() ? 0 : 1;
    REQUIRE(closest_name(name, known) == expected);
  }
  CHECK(near > moelab::test::random_runs(200, 20));
  const std::vector<std::string> known = {"lru", "fifo"};
  CHECK(suggestion("fif", known) == " (did you mean 'fifo'?)");
  CHECK(suggestion("optimal", known) == " (known: lru, fifo)");
  const std::vector<std::string> longer = {"gguf-q4_k_m", "gguf-q4_k_xl", "llama.cpp-cuda", "llama.cpp-rocm"};
  CHECK(suggestion("q4_k_m", longer) == " (did you mean 'gguf-q4_k_m'?)");
  CHECK(suggestion("LLaMAcpp", longer) == " (did you mean 'llama.cpp-cuda'?)");
  CHECK(suggestion("q4", longer) == " (known: gguf-q4_k_m, gguf-q4_k_xl, llama.cpp-cuda, llama.cpp-rocm)");
  CHECK(suggestion("x", {}).empty());
  CHECK(suggestion("x", std::vector<std::string>(40, "policy")).empty());
  CHECK(closest_name(std::string(10'000'000, 'a'), known).empty());  // at once: the length says it
}

TEST_CASE("nearest name: of two as near, the one that has the typed letters in order") {
  // One letter is another in "lru-2", and one is added in "lru-kk"; in "q4_k_s" one is added and one another.
  CHECK(closest_name("lru-k", std::vector<std::string>{"lru-2", "lru-kk"}) == "lru-kk");
  CHECK(closest_name("lru-k", std::vector<std::string>{"lru-2", "lru-3"}) == "lru-2");
  CHECK(closest_name("Q4-KM", std::vector<std::string>{"q4-ks", "q4_km"}).empty());  // 3 changes of 5 letters
  CHECK(suggestion("q4km", std::vector<std::string>{"q4_0", "q4_k", "q4_k_s", "q4_k_m"}) ==
        " (did you mean 'q4_k_m'?)");
  CHECK(closest_name("q4k_m", std::vector<std::string>{"q4_m", "q4ks_m", "q4_k_m"}) == "q4ks_m");
}

}  // namespace moelab::nearest_name_test
