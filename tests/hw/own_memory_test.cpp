// A device with memory of its own, played by the CPU: every tensor lies there, and a run is what it is
// without.
#include <catch2/catch.hpp>
#include <map>
#include <mutex>

#include "hw/executor/cpu_device.hpp"
#include "tests/hw/hardware_runs.hpp"

namespace moelab::own_memory_test {

using namespace moelab::test;

namespace {

class OwnMemoryDevice final : public ComputeDevice, public MemorySource {
 public:
  explicit OwnMemoryDevice(const ExpertShape& shape) : cpu_(shape, 1 << 12) {}
  MemorySource* memory() override { return this; }
  std::byte* make(std::size_t bytes) override {
    std::byte* const made = host_.make(bytes);
    const std::lock_guard lock(mutex_);
    slabs_[made] = bytes;
    return made;
  }
  void unmake(std::byte* memory) override {
    const std::lock_guard lock(mutex_);
    slabs_.erase(memory);
    host_.unmake(memory);
  }
  void load(std::span<const std::byte> from, std::span<std::uint16_t> tensor) override {
    note(tensor);
    strangers += own(from.data()) ? 1 : 0;  // what is loaded comes from elsewhere
    cpu_.load(from, tensor);
    ++loads;
  }
  void store(std::span<const std::uint16_t> from, std::span<std::byte> to) override {
    note(from);
    strangers += own(to.data()) ? 1 : 0;
    cpu_.store(from, to);
    ++stores;
  }
  void recover(std::span<const std::byte> exponents, std::span<const std::byte> sign_mantissas,
               std::span<std::uint16_t> tensor) override {
    note(tensor);
    strangers += own(exponents.data()) || own(sign_mantissas.data()) ? 1 : 0;
    cpu_.recover(exponents, sign_mantissas, tensor);
    ++joins;
  }
  std::uint64_t checksum_of(std::span<const std::uint16_t> tensor) override {
    note(tensor);
    return cpu_.checksum_of(tensor);
  }
  void extract(std::span<const std::uint16_t> tensor, std::span<std::byte> sign_mantissas) override {
    note(tensor);
    cpu_.extract(tensor, sign_mantissas);
  }
  void execute(const ExpertOperands& expert, std::uint32_t tokens) override {
    note(expert.down);
    cpu_.execute(expert, tokens);
  }
  void dense(double bytes, double flops, int kernels) override { cpu_.dense(bytes, flops, kernels); }
  std::size_t slabs() const { return slabs_.size(); }
  std::atomic<int> loads = 0, stores = 0, joins = 0,
                   strangers = 0;  // strangers: memory that is not where it belongs

 private:
  bool own(const void* at) {
    const std::lock_guard lock(mutex_);
    const auto* const byte = static_cast<const std::byte*>(at);
    const auto after = slabs_.upper_bound(const_cast<std::byte*>(byte));
    return after != slabs_.begin() && byte < std::prev(after)->first + std::prev(after)->second;
  }
  void note(std::span<const std::uint16_t> tensor) { strangers += own(tensor.data()) ? 0 : 1; }

  CpuDevice cpu_;
  HostMemory host_;
  std::mutex mutex_;
  std::map<std::byte*, std::size_t> slabs_;
};

}  // namespace

TEST_CASE("a device with memory of its own: tensors lie there, and hits and bytes are the same") {
  for (const bool compressed : {true, false})
    for (const char* cache : {"lru", "fixed-layers"}) {  // the second holds experts from the start
      INFO(cache << (compressed ? ", compressed" : ", whole"));
      SmallRun small = decode_run();
      SystemConfig& system = small.scenario.systems.front();
      system.cache.name = cache;
      system.compressed = compressed;
      if (!compressed) {
        system.shards = 0;
        system.codec.clear();
      }
      const Architecture& model = small.scenario.model;
      OwnMemoryDevice device({static_cast<std::size_t>(model.hidden),
                              static_cast<std::size_t>(model.moe().width), model.moe().matrices});
      const RunStore files(model, "fixed3", system.shards);
      HardwareRun plain(files), own(files);
      own.device = &device;
      const RunResult expected = plain.run(small), found = own.run(small);
      CHECK(found.metrics.hits == expected.metrics.hits);
      CHECK(found.metrics.hits[index(State::F)] > 0);
      CHECK(own.bytes_read == plain.bytes_read);
      CHECK(own.left_wrong == 0);
      CHECK(device.strangers == 0);
      CHECK((compressed ? device.joins : device.loads) > 0);
      CHECK((compressed ? device.loads : device.joins) == 0);
      CHECK(device.slabs() == 0);  // all given back
    }
}

}  // namespace moelab::own_memory_test
