// Catch2's main, with one option more: --share 2/4 runs the second, sixth, tenth ... of the tests that are
// asked for, and says which runs, so that a crash has a name. CTest starts a program so where a start takes
// long (tests/CMakeLists.txt).
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

bool says_what_runs = false;

struct WhatRuns final : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    if (!says_what_runs) return;
    std::printf("%s\n", test.name.c_str());
    std::fflush(stdout);
    took.start();
  }
  void testCaseEnded(const Catch::TestCaseStats& test) override {
    if (!says_what_runs) return;
    std::printf("%s %.2f s\n", test.totals.assertions.allPassed() ? "   " : "   FAILED after",
                took.getElapsedSeconds());
  }
  Catch::Timer took;
};

/// A pattern that only this name matches.
std::string only(const std::string& name) {
  std::string pattern;
  for (const char letter : name) {
    if (std::string_view("\\,[]\"*~").find(letter) != std::string_view::npos) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

/// Leaves `session` with the tests of its share; false where none are.
bool keep_share(Catch::Session& session, unsigned share, unsigned shares) {
  const Catch::Config& asked = session.config();
  const auto tests = Catch::filterTests(Catch::getAllTestCasesSorted(asked), asked.testSpec(), asked);
  std::string patterns;
  for (std::size_t test = share - 1; test < tests.size(); test += shares)
    patterns += only(tests[test].name) + ',';
  Catch::ConfigData mine = session.configData();
  mine.testsOrTags = {patterns};
  session.useConfigData(mine);
  return !patterns.empty();
}

}  // namespace

CATCH_REGISTER_LISTENER(WhatRuns)

int main(int argc, char** argv) {
  Catch::Session session;
  std::string share;
  session.cli(session.cli() |
              Catch::clara::Opt(share, "i/n")["--share"]("run the i-th of n shares of the tests"));
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  if (!share.empty()) {
    unsigned i = 0, n = 0;
    if (std::sscanf(share.c_str(), "%u/%u", &i, &n) != 2 || i == 0 || i > n) {
      std::fprintf(stderr, "--share expects i/n with 1 <= i <= n, such as 2/4, not '%s'\n", share.c_str());
      return 2;
    }
    says_what_runs = true;
    if (!keep_share(session, i, n)) return 0;
  }
  unsetenv("COLUMNS");  // of the terminal that tests are run from: programs under test would fit their tables
                        // to it
  return session.run();
}
