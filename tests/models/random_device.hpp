// Random device profiles that use everything a profile can say. The same seed gives the same ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/device.hpp"
#include "models/physical_bounds.hpp"
#include "tests/models/random_architecture.hpp"

namespace moelab::test {

class RandomDevice {
 public:
  explicit RandomDevice(std::uint64_t seed) : dice_(seed) {}

  DeviceProfile draw() {
    DeviceProfile d;
    d.name = text();
    d.title = text();
    for (int n = dice_.from(1, 4); n > 0; --n) {
      const std::string name = text();
      d.sources[name] = {name, static_cast<Source::Kind>(dice_.from(0, 4)), text()};
    }
    for (const auto& [name, source] : d.sources) names_.push_back(name);
    if (dice_.coin())
      d.measured_on = {{text(), text(), dice_.coin() ? "" : text(), dice_.coin() ? "" : text()},
                       text(),
                       text(),
                       dice_.coin() ? "" : text()};
    if (dice_.coin()) d.gpu = {some<FlopsPerSecond>(), sourced(share()), some<Seconds>(), own_memory()};
    if (d.gpu && d.gpu->own && dice_.coin()) make_stand_in(*d.gpu);
    if (d.gpu && d.gpu->own) draw_streaming(*d.gpu);
    draw_memory(d);
    draw_cpu(d);
    d.ssd = {sourced(curve_of_bytes()), sourced(1 + 99 * unit()), sourced(factors(false))};
    d.page_cache = {sourced(curve_of_bytes())};
    for (int n = dice_.from(0, 3); n > 0; --n) {
      CodecProfile& c = d.codecs[text()];
      c.ratio = sourced(1.1 * share());
      if (dice_.coin())
        c.decompress = some<BytesPerSecond>();
      else
        c.decompress = sourced(curve_of_bytes());
    }
    return d;
  }

 private:
  /// In [0, 1), with all the digits that a double has, or few.
  double unit() {
    return dice_.coin() ? dice_.from(0, 99) / 100.0
                        : dice_.from(0, 1 << 30) / (0x1p30 + 1) + dice_.from(0, 1 << 22) * 0x1p-53;
  }
  double share() { return 1 - unit() * 0.999; }  // never 0
  /// Over all orders of magnitude that a quantity of its kind can have, round or not; never 0.
  template <class Q>
  double magnitude() {
    const PhysicalBounds bounds = physical_bounds(Q());
    const int least = static_cast<int>(std::log10(bounds.least)),
              most = static_cast<int>(std::log10(bounds.most));
    return std::clamp(share() * std::pow(10.0, dice_.from(least, most - 2)), bounds.least, bounds.most);
  }

  template <class T>
  Sourced<T> sourced(T value) {
    Sourced<T> out{std::move(value),
                   names_[static_cast<std::size_t>(dice_.from(0, static_cast<int>(names_.size()) - 1))]};
    return out;
  }
  template <class Q>
  Sourced<Q> some() {
    Sourced<Q> out = sourced(Q(magnitude<Q>()));
    if (dice_.coin()) {
      const double p10 = magnitude<Q>(), p50 = p10 + (dice_.coin() ? magnitude<Q>() : 0);
      out.spread = Spread{p10, p50, p50 + magnitude<Q>()};
    }
    return out;
  }
  Sourced<Curve> sourced(Curve value) {
    Sourced<Curve> out = sourced<Curve>(std::move(value));
    if (dice_.coin()) out.spread = Spread{unit(), 1, 1 + magnitude<Seconds>()};
    return out;
  }
  Curve curve_of_bytes() {
    if (dice_.coin())
      return Curve::affine(dice_.coin() ? 0 : magnitude<Seconds>(), magnitude<BytesPerSecond>());
    return curve([this] { return magnitude<Bytes>(); });
  }
  Curve curve_of_whole() {
    return curve([this] { return static_cast<double>(dice_.from(1, 1 << 20)); });
  }
  template <class Step>
  Curve curve(Step step) {
    std::vector<CurvePoint> points;
    double amount = dice_.coin() ? 0 : step(), seconds = dice_.coin() ? 0 : magnitude<Seconds>();
    for (int n = dice_.from(1, 5); n > 0; --n) {
      points.push_back({amount, seconds});
      const double next = amount + step();
      if (next == amount) break;  // lost in rounding
      amount = next;
      if (dice_.coin()) seconds += magnitude<Seconds>();
    }
    return Curve(std::move(points));
  }
  std::vector<double> factors(bool from_one) {
    std::vector<double> list = {from_one ? 1 : 1 + unit()};
    for (int n = dice_.from(0, 4); n > 0; --n) list.push_back(1 + 9 * unit());
    return list;
  }
  std::optional<GpuMemory> own_memory() {
    if (dice_.coin()) return std::nullopt;
    GpuMemory own{some<Bytes>(), some<Bytes>(), some<BytesPerSecond>(), {}};
    own.reserve.value = own.total.value * (0.999 * unit());
    if (!beyond_physical(own.reserve.value).empty()) own.reserve.value = Bytes(0);
    own.link = {sourced(curve_of_bytes()), sourced(curve_of_bytes())};
    if (dice_.coin()) own.link.pageable = sourced(curve_of_bytes());
    return own;
  }
  void draw_streaming(GpuProfile& gpu) {
    for (int n = dice_.from(0, 2); n > 0; --n)
      gpu.codecs[text()] = {sourced(1.1 * share()), some<BytesPerSecond>()};
    if (dice_.coin()) gpu.remap = sourced(curve_of_bytes());
    if (gpu.stand_in || dice_.coin()) return;  // the CPU plays one
    gpu.node.emplace();
    gpu.node->gpus = sourced(dice_.from(2, 1024));
    for (int n = dice_.from(0, 3), gpus = 1; n > 0; --n) {
      gpus += dice_.from(1, 100);
      gpu.node->all_reduce.push_back({gpus, sourced(curve_of_bytes())});
    }
  }
  /// The CPU computes for it.
  static void make_stand_in(GpuProfile& gpu) {
    GpuProfile played;
    played.stand_in = true;
    played.own = std::move(gpu.own);
    played.own->bandwidth = {};
    gpu = std::move(played);
  }
  void draw_memory(DeviceProfile& d) {
    d.memory.total = some<Bytes>();
    d.memory.system_reserve = some<Bytes>();
    const bool shared = d.gpu && !d.gpu->own;
    if (shared) d.memory.bandwidth = some<BytesPerSecond>();
    if (dice_.coin()) {
      d.memory.controller = some<BytesPerSecond>();
      if (shared) d.memory.controller->value += d.memory.bandwidth->value;
    }
  }
  void draw_cpu(DeviceProfile& d) {
    CpuProfile& c = d.cpu;
    c.threads = sourced(dice_.from(1, 4096));
    if (dice_.coin()) c.threads.spread = Spread{1, 2, 3};
    c.dispatch = some<Seconds>();
    const auto wanted = [&] { return !d.gpu || d.gpu->stand_in || dice_.coin(); };
    if (wanted()) c.recover = sourced(curve_of_whole());
    if (wanted()) c.peak = some<FlopsPerSecond>();
    if (wanted()) c.bandwidth = some<BytesPerSecond>();
    if (wanted()) c.dense_launch = some<Seconds>();
    for (int n = dice_.from(0, 3); n > 0; --n)  // n keeps the shapes apart
      c.experts.push_back(
          {dice_.from(1, 9999), 10 * dice_.from(1, 999) + n, dice_.from(2, 3), sourced(curve_of_whole())});
    if (dice_.coin()) c.sharing = sourced(factors(true));
    if (c.sharing && dice_.coin()) c.slowdown_while_reading = sourced(factors(false).front());
  }
  /// One that YAML has a hard time with, now and then.
  std::string text() {
    static const std::vector<std::string> kPieces = {
        "a",    "lz4hc", "Orin",   " ",      "0",          ":",    ": ",  "#",  " #", "-",  "- ",
        "{",    "}",     "[",      "]",      ",",          "'",    "\"",  "\\", "\n", "\t", "\r",
        "\x01", "\x7f",  "\u00e9", "\u2028", "\U0001F600", "?",    "%",   "@",  "`",  "&",  "*",
        "!",    "|",     ">",      "~",      "null",       "true", "1e3", "=",  "..."};
    std::string out;
    for (int n = dice_.from(1, 6); n > 0; --n)
      out += kPieces[static_cast<std::size_t>(dice_.from(0, static_cast<int>(kPieces.size()) - 1))];
    return out;
  }

  Dice dice_;
  std::vector<std::string> names_;
};

}  // namespace moelab::test
