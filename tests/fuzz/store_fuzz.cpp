// A store of results. The first byte chooses: bit 0: the file itself, or changes to a good store as parts: a
// page, then a place in it (2 bytes, little-endian) and what stands there instead; bit 1: it is written too.
#include <filesystem>

#include "sim/store/result_store.hpp"
#include "tests/fuzz/fuzz_support.hpp"
#include "tests/sim/store_cases.hpp"
#include "tests/traces/trace_files.hpp"

using namespace moelab;
using namespace moelab::fuzz;

namespace {

std::string good_store() {
  const std::filesystem::path file = output_path("good.db");
  {
    ResultStore store(file, ResultStore::Access::write);
    store.put_sweep(test::stored_sweep("one"),
                    {test::stored_point(0, "8 GB", "lru", "a"), test::stored_point(1, "9 GB", "lru", "b")});
    store.put_run(test::stored_run("a"));
  }
  return test::read_bytes(file);
}

std::string changed_store(Input& input) {
  constexpr std::size_t kPage = 4096;
  static const std::string good = good_store();
  std::string bytes = good;
  for (const auto& [page, text] : input.parts()) {
    if (text.size() < 2) continue;
    const auto place = static_cast<std::size_t>(static_cast<unsigned char>(text[0])) +
                       256 * static_cast<std::size_t>(static_cast<unsigned char>(text[1]));
    const std::size_t at = (page * kPage + place % kPage) % bytes.size();
    const std::size_t size = std::min(text.size() - 2, bytes.size() - at);
    bytes.replace(at, size, text.substr(2, size));
  }
  return bytes;
}

void read_all(const std::filesystem::path& file) {
  const ResultStore store(file, ResultStore::Access::read);
  for (const StoredSweep& sweep : store.sweeps()) {
    store.counts(sweep.name);
    const std::vector<StoredOutcome> outcomes = store.outcomes(sweep.name);
    require(store.points(sweep.name).size() == outcomes.size());
    touch(sweep.question);
    for (const StoredOutcome& outcome : outcomes)
      if (const auto run = store.run(outcome.point.run, true)) touch(run->result);
  }
  store.mean_cpu_s("zipmoe-orin", "zipmoe");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const unsigned form = input.byte();
  const std::filesystem::path file = output_path("store.db");
  for (const char* left : {"", "-wal", "-shm", "-journal", ".lock"})
    std::filesystem::remove(file.string() + left);
  test::write_bytes(file, (form & 1U) != 0 ? std::string(input.rest()) : changed_store(input));
  accepted([&] { read_all(file); });
  if ((form & 2U) != 0)
    accepted([&] {
      ResultStore store(file, ResultStore::Access::write);
      store.put_run(test::stored_run("new"));
      require(store.is_done("new"));
    });
  return 0;
}
