// Packing that is interrupted: killed, out of disk, out of luck. It goes on from what is whole, and the store
// is the same as if nothing had happened.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "hw/store/chunk_store_writer.hpp"
#include "hw/store/ordered_work.hpp"
#include "tests/hw/small_stores.hpp"
#include "tests/random_runs.hpp"

namespace moelab::pack_fault_test {
namespace {

using namespace moelab::test;
using Catch::Matchers::Contains;

/// Packs in a process of its own, which `within` may end; returns its status as waitpid has it.
int pack_apart(const WeightSource& source, const std::filesystem::path& store, PackOptions options,
               const std::function<void()>& before, const std::function<void(pid_t)>& meanwhile) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    try {
      before();
      pack(source, store, options);
    } catch (const InputError&) {
      status = 2;
    } catch (...) {
      status = 1;
    }
    ::_exit(status);
  }
  meanwhile(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

void do_nothing() {}
void just_wait(pid_t) {}

TEST_CASE("a pack that is killed at any moment goes on, and gives the same store") {
  const ScratchFolder folder;
  Random random(71);
  // 48 experts, or 12 where each attempt takes its time.
  const SyntheticSource source(small_experts(kFewerRuns ? 3 : 6, kFewerRuns ? 4 : 8, 60, 100), 71);
  const auto begin = std::chrono::steady_clock::now();
  pack(source, folder / "whole", {"huffman", 3, 1, {}});
  // Waits in us of up to half of what a pack takes here, so that first attempts are killed on any machine.
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  const auto longest = static_cast<unsigned>(std::max(100.0, took.count() / 2));
  const auto due = files_of(folder / "whole");
  int killed = 0, from_outside = 0;
  constexpr unsigned kSlower = random_runs(10u, 3u);  // attempts for each of which as much time is added
  for (int round = 0; round < moelab::test::random_runs(12, 3); ++round) {
    const auto store = folder / ("store" + std::to_string(round));
    PackOptions options{"huffman", 3, 1 + static_cast<unsigned>(round % 2), {}};
    for (int attempt = 0; !std::filesystem::exists(store); ++attempt) {
      REQUIRE(attempt < 500);
      // Longer and longer, so that it ends on slow machines too.
      const auto wait =
          std::chrono::microseconds(random.below(longest * (1 + static_cast<unsigned>(attempt) / kSlower)));
      int left = static_cast<int>(1 + random.below(20));
      // By itself between two tensors, or from outside wherever it is; at the first attempt one of its
      // threads waits for that, so that it is killed however late this process comes to it.
      options.progress = [&](std::uint64_t, std::uint64_t) {
        if (--left != 0) return;
        if (round % 3 == 0) ::raise(SIGKILL);
        if (attempt == 0) ::pause();
      };
      const int status = pack_apart(source, store, options, do_nothing, [&](pid_t child) {
        if (round % 3 == 0) return;
        std::this_thread::sleep_for(wait);
        ::kill(child, SIGKILL);
      });
      killed += WIFSIGNALED(status);
      from_outside += WIFSIGNALED(status) && round % 3 != 0;
      REQUIRE((WIFSIGNALED(status) || status == 0));
    }
    auto found = files_of(store);
    found.erase("journal");  // killed between the renaming and the journal's removal
    REQUIRE((found == due));
    REQUIRE(!std::filesystem::exists(partial_store(store)));
  }
  CHECK(killed > moelab::test::random_runs(20, 3));
  CHECK(from_outside >= moelab::test::random_runs(8, 2));  // all first attempts of such rounds
}

TEST_CASE("of an unfinished pack only what its checksums confirm is kept") {
  const ScratchFolder folder;
  Random random(72);
  const SyntheticSource source(small_experts(2, 3, 50, 70), 72);
  pack(source, folder / "whole", {"fixed3", 2, 1, {}});
  const auto due = files_of(folder / "whole");
  for (int round = 0; round < random_runs(60, 12); ++round) {
    const auto store = folder / "store";
    const auto partial = partial_store(store);
    const auto at = 3 + random.below(12);
    struct Stop {};
    const auto stop = [&](std::uint64_t done, std::uint64_t) {
      if (done == at) throw Stop();
    };
    REQUIRE_THROWS_AS(pack(source, store, {"fixed3", 2, 2, stop}), Stop);
    const bool journal = round % 2 == 0;
    const auto path = partial / (journal ? "journal" : "chunks.data");
    std::string bytes = read_bytes(path);
    const std::size_t place = journal ? 32 + random.below(bytes.size() - 32) : random.below(bytes.size());
    if (round % 4 < 2)
      bytes[place] = static_cast<char>(bytes[place] ^ 1 << random.below(8));
    else
      bytes.resize(place);
    write_bytes(path, bytes);
    write_bytes(partial / ".moelab-1-0.tmp", "of an index");
    const std::uint64_t before = pack(source, store, {"fixed3", 2, 1, {}});
    CHECK(before < at);
    REQUIRE((files_of(store) == due));
    std::filesystem::remove_all(store);
  }
}

TEST_CASE("a full disk is an error that names the file, and packing goes on when there is room") {
  const ScratchFolder folder;
  const SyntheticSource source(small_experts(3, 4, 60, 100), 73);
  pack(source, folder / "whole", {"none", 3, 1, {}});
  const auto due = files_of(folder / "whole");
  Random random(73);
  for (int round = 0; round < moelab::test::random_runs(12, 3); ++round) {
    const auto store = folder / "store";
    const rlimit limit{4096 + random.below(due.at("chunks.data").size() - 8192), RLIM_INFINITY};
    const auto fill = [&] {
      std::signal(SIGXFSZ, SIG_IGN);
      ::setrlimit(RLIMIT_FSIZE, &limit);
    };
    const int status = pack_apart(source, store, {"none", 3, 2, {}}, fill, just_wait);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 2);
    REQUIRE(!std::filesystem::exists(store));
    const std::uint64_t before = pack(source, store, {"none", 3, 2, {}});
    // A tensor takes 1500-byte-planes' worth of chunks, all of the same size: as many as fit the limit.
    const std::uint64_t tensor = due.at("chunks.data").size() / source.weights().tensors();
    CHECK(before == limit.rlim_cur / tensor);
    REQUIRE((files_of(store) == due));
    std::filesystem::remove_all(store);
  }
}

TEST_CASE("an unfinished pack is gone on from by its own source and options only") {
  const ScratchFolder folder;
  const auto store = folder / "store";
  const SyntheticSource source(small_experts(), 74), other(small_experts(), 75),
      wider(small_experts(2, 3, 40, 58), 74);
  struct Stop {};
  const auto stop = [](std::uint64_t, std::uint64_t) { throw Stop(); };
  CHECK_THROWS_AS(pack(source, store, {"fixed3", 2, 1, stop}), Stop);
  for (const auto& attempt : std::vector<std::function<void()>>{[&] {
                                                                  pack(other, store, {"fixed3", 2, 1, {}});
                                                                },
                                                                [&] {
                                                                  pack(wider, store, {"fixed3", 2, 1, {}});
                                                                },
                                                                [&] {
                                                                  pack(source, store, {"huffman", 2, 1, {}});
                                                                },
                                                                [&] {
                                                                  pack(source, store, {"fixed3", 3, 1, {}});
                                                                }})
    CHECK_THROWS_WITH(attempt(), Contains("store.partial") && Contains("remove this folder to start anew"));
  {
    ChunkStoreWriter writer(store, {source.weights(), "fixed3", 2}, source.identity());
    CHECK(writer.tensors_done() == 1);
    CHECK_THROWS_WITH(pack(source, store, {"fixed3", 2, 1, {}}), Contains("another process is packing here"));
  }
  std::string journal = read_bytes(partial_store(store) / "journal");
  journal[17] ^= 1;
  write_bytes(partial_store(store) / "journal", journal);
  CHECK_THROWS_WITH(pack(source, store, {"fixed3", 2, 1, {}}), Contains("damaged journal"));
  journal[17] ^= 1;
  write_bytes(partial_store(store) / "journal", journal);
  CHECK(pack(source, store / "", {"fixed3", 2, 1, {}}) == 1);
  CHECK_THROWS_WITH(pack(source, store, {"fixed3", 2, 1, {}}), Contains("exists already"));
  CHECK_THROWS_AS(pack(source, folder / "no" / "store", {"fixed3", 2, 1, {}}), InputError);
  CHECK_THROWS_AS(pack(source, folder / "new", {"fixed9", 2, 1, {}}), InputError);
  CHECK_THROWS_AS(pack(source, folder / "new", {"fixed3", 0, 1, {}}), InputError);
  CHECK(folder.names().size() == 1);
}

TEST_CASE("ordered work is taken in order, once each, and the first error in order ends it") {
  Random random(76);
  for (int round = 0; round < random_runs(200); ++round) {
    const std::uint64_t first = random.below(5), end = first + random.below(40);
    const auto threads = static_cast<unsigned>(1 + random.below(4));
    const std::uint64_t bad = random.below(60), bad_take = random.below(60);
    std::vector<std::uint64_t> made(threads), taken;
    const auto run = [&] {
      work_in_order(
          first, end, threads,
          [&](unsigned thread, std::uint64_t item) {
            if (item % 7 == 3) std::this_thread::yield();
            if (item == bad) throw item;
            made[thread] = item;
          },
          [&](unsigned thread, std::uint64_t item) {
            REQUIRE(made[thread] == item);
            if (item == bad_take) throw item;
            taken.push_back(item);
          });
    };
    const std::uint64_t fails = std::min(bad < first ? end : bad, bad_take < first ? end : bad_take);
    std::uint64_t thrown = end;
    try {
      run();
    } catch (std::uint64_t item) {
      thrown = item;
    }
    REQUIRE(thrown == std::min(fails, end));
    std::vector<std::uint64_t> due;
    for (std::uint64_t i = first; i < std::min(fails, end); ++i) due.push_back(i);
    REQUIRE((taken == due));
  }
}

}  // namespace
}  // namespace moelab::pack_fault_test
