// Small devices for tests of the serving loop: with a GPU, and without.
#pragma once

#include "models/device.hpp"
#include "traces/random.hpp"

namespace moelab::test {

/// Numbers of no particular machine, with the same orders of magnitude as real ones.
inline DeviceProfile small_device() {
  DeviceProfile d;
  d.name = "small-device";
  d.title = "Small device";
  d.memory.total.value = Bytes(1e9);
  d.memory.system_reserve.value = Bytes(1e6);
  d.memory.bandwidth = {BytesPerSecond(1e9), ""};
  d.cpu.threads.value = 16;
  d.cpu.dispatch.value = Seconds(0);
  d.ssd.read.value = Curve::affine(5e-6, 5e8);
  d.ssd.slowdown_while_decompressing.value = 1.25;
  d.ssd.readers.value = {1, 2};
  d.page_cache.read.value = Curve::affine(1e-6, 4e9);
  d.codecs["lz"].ratio.value = 0.5;
  d.codecs["lz"].decompress.emplace<Sourced<BytesPerSecond>>().value = BytesPerSecond(4e8);
  d.gpu = {{FlopsPerSecond(1e10), ""}, {0.5, ""}, {Seconds(2e-6), ""}};
  return d;
}

/// The same machine without its GPU, or with a CPU that joins planes; its cores slow each other down, or not.
inline void give_cpu_work(DeviceProfile& d, Random& random) {
  CpuProfile& c = d.cpu;
  if (random.below(2) == 1) c.sharing = {{1, 1.25, 1.5, 2.5}, ""};
  c.recover = {Curve({{0, 1e-6}, {1000, 4e-6}}), ""};
  if (random.below(3) == 0) return;
  d.gpu.reset();
  d.memory.bandwidth.reset();
  c.peak = {FlopsPerSecond(2e9), ""};
  c.bandwidth = {BytesPerSecond(5e8), ""};
  c.dense_launch = {Seconds(1e-6), ""};
  if (random.below(2) == 1) c.experts = {{32, 48, 3, {Curve({{1, 2e-5}, {4, 5e-5}}), ""}}};
}

/// A GPU with memory of its own behind a link, and a CPU that can compute experts.
inline DeviceProfile small_discrete_device() {
  DeviceProfile d = small_device();
  d.memory.bandwidth.reset();
  d.cpu.peak = {FlopsPerSecond(2e9), ""};
  d.cpu.bandwidth = {BytesPerSecond(5e8), ""};
  d.cpu.dense_launch = {Seconds(1e-6), ""};
  d.gpu->own = {{Bytes(1e9), ""},
                {Bytes(1e6), ""},
                {BytesPerSecond(1e9), ""},
                {{Curve::affine(3e-6, 4e8), ""}, {Curve::affine(2e-6, 3e8), ""}, {}}};
  return d;
}

}  // namespace moelab::test
