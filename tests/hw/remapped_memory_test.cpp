// Pages that move between addresses: against a plain list of what is where, and no access to what is not
// mapped.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

#include "hw/io/remapped_memory.hpp"
#include "tests/random_runs.hpp"
#include "traces/random.hpp"

namespace moelab::remapped_memory_test {

namespace {

/// Whether another process that reads there ends well.
bool can_read(std::span<const std::byte> bytes) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // neither the test's handler nor a sanitizer's
    const volatile int first = std::to_integer<int>(*const_cast<const volatile std::byte*>(bytes.data()));
    ::_exit(first < 0 ? 1 : 0);  // read, whatever it is
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("remapped memory: bytes stay in their frames, wherever these are shown") {
  Random random(11);
  const std::size_t page = RemappedMemory::page();
  for (int round = 0; round < moelab::test::random_runs(1000, 100); ++round) {
    const std::size_t addresses = 2 + random.below(30), frames = 1 + random.below(12);
    RemappedMemory memory(addresses * page, frames * page);
    REQUIRE(memory.frame_bytes() == frames * page);
    std::vector<std::byte> in_frame(frames, std::byte{0});  // what the naive memory has, a value a page
    struct Mapping {
      std::size_t address, frame, pages;
    };
    std::vector<Mapping> mappings;
    const auto free = [&](const Mapping& m) {
      return std::ranges::none_of(mappings, [&](const Mapping& other) {
        const bool apart = m.address + m.pages <= other.address || other.address + other.pages <= m.address;
        const bool other_frames = m.frame + m.pages <= other.frame || other.frame + other.pages <= m.frame;
        return !apart || !other_frames;
      });
    };
    for (int change = 0; change < 40; ++change) {
      if (!mappings.empty() && random.below(2) == 0) {
        const std::size_t which = random.below(mappings.size());
        const Mapping m = mappings[which];
        memory.unmap(m.address * page, m.frame * page, m.pages * page);
        mappings.erase(mappings.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        const std::size_t pages = 1 + random.below(std::min(frames, addresses));
        const Mapping m{random.below(addresses - pages + 1), random.below(frames - pages + 1), pages};
        if (!free(m)) continue;
        memory.map(m.address * page, m.frame * page, pages * page);
        mappings.push_back(m);
        const std::size_t written = random.below(pages);
        in_frame[m.frame + written] = static_cast<std::byte>(random.below(256));
        std::ranges::fill(memory.at((m.address + written) * page, page), in_frame[m.frame + written]);
      }
      for (const Mapping& m : mappings)
        for (std::size_t i = 0; i < m.pages; ++i)
          for (const std::byte value : memory.at((m.address + i) * page, page).subspan(page / 2, 2))
            REQUIRE(value == in_frame[m.frame + i]);
    }
  }
}

TEST_CASE("remapped memory: large pieces move, too") {
  const std::size_t bytes = 2 * RemappedMemory::kLargePage;
  RemappedMemory memory(3 * bytes, bytes);
  for (std::size_t round = 0; round < 12; ++round) {
    const std::size_t at = round % 3 * bytes;
    memory.map(at, 0, bytes);
    const std::span<std::byte> shown = memory.at(at, bytes);
    if (round > 0)
      CHECK(std::ranges::all_of(shown, [&](std::byte b) { return b == static_cast<std::byte>(round - 1); }));
    std::ranges::fill(shown, static_cast<std::byte>(round));
    memory.unmap(at, 0, bytes);
  }
}

TEST_CASE("remapped memory: what is not mapped cannot be touched") {
  const std::size_t page = RemappedMemory::page();
  RemappedMemory memory(2 * page, page);
  CHECK_FALSE(can_read(memory.at(0, page)));
  memory.map(0, 0, page);
  CHECK(can_read(memory.at(0, page)));
  CHECK_FALSE(can_read(memory.at(page, page)));
  memory.unmap(0, 0, page);
  memory.map(page, 0, page);
  CHECK_FALSE(can_read(memory.at(0, page)));
  CHECK(can_read(memory.at(page, page)));
}

TEST_CASE("remapped memory: parts of pages and places that are not there are refused") {
  const std::size_t page = RemappedMemory::page();
  RemappedMemory memory(2 * page, page);
  CHECK_THROWS_AS(memory.map(1, 0, page), std::invalid_argument);
  CHECK_THROWS_AS(memory.map(0, 0, page / 2), std::invalid_argument);
  CHECK_THROWS_AS(memory.map(0, 0, 0), std::invalid_argument);
  CHECK_THROWS_AS(memory.map(2 * page, 0, page), std::invalid_argument);
  CHECK_THROWS_AS(memory.map(0, page, page), std::invalid_argument);
  CHECK_THROWS_AS(memory.map(0, 0, 2 * page), std::invalid_argument);
}

}  // namespace moelab::remapped_memory_test
