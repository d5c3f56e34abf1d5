#include "hw/validate/validation_cpu.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <span>
#include <thread>

#include "hw/bench/bench_team.hpp"
#include "hw/bench/sample_statistics.hpp"

namespace moelab {
namespace {

constexpr int kTurns = 5, kBursts = 3;
// Choices: a core that is taken away for less than a pause spoils one burst; a factor below the other is no
// change, and ends the search for one.
constexpr std::chrono::milliseconds kPause{20};
constexpr double kSteady = 1.05;
constexpr std::uint64_t kDenseBytes = std::uint64_t{4} << 20;  // what attention of small models reads
constexpr std::size_t kPage = 4096;

std::size_t pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

BenchOptions options_for(const ExpertShape& shape, std::size_t shard, std::size_t largest,
                         const std::vector<std::string>& codecs) {
  BenchOptions options;
  options.quick = true;
  options.sizes = {shard, largest};
  options.experts = {shape};
  options.codecs = codecs;
  options.cores = 1;
  return options;
}

/// The median of turns of as many hand-overs as a sample of `moelab bench` has (2 ms): of each the mean,
/// which is what a run pays, and of which their middle says little.
double hand_over_burst(HandoffTeam& worker) {
  constexpr int kOfTurn = 6;
  std::vector<double> means;
  for (int turn = 0; turn < kTurns; ++turn) {
    worker.hand_over(0);  // it has waited for as long as all else took; now for as long as always
    double seconds = 0;
    for (int i = 0; i < kOfTurn; ++i) seconds += worker.hand_over(kHandoffIdle);
    means.push_back(seconds / kOfTurn);
  }
  return statistics_of(means).median;
}

Curve scaled(const Curve& curve, double ratio) {
  std::vector<CurvePoint> points = curve.points();
  for (CurvePoint& point : points) point.seconds *= ratio;
  return Curve(std::move(points));
}

void scale(CodecProfile& codec, double ratio) {
  if (auto* rate = std::get_if<Sourced<BytesPerSecond>>(&codec.decompress))
    rate->value = rate->value / ratio;
  else
    std::get<Sourced<Curve>>(codec.decompress).value =
        scaled(std::get<Sourced<Curve>>(codec.decompress).value, ratio);
}

}  // namespace

DeviceProfile scaled_cpu(const DeviceProfile& device, const std::string& codec, const ExpertShape& shape,
                         const CpuRatios& ratios) {
  DeviceProfile now = device;
  if (!codec.empty() && now.has_stand_in()) {
    Sourced<BytesPerSecond>& rate = now.gpu->codecs.at(codec).rate;
    rate.value = rate.value / ratios.decode;
  } else if (!codec.empty()) {
    scale(now.codecs.at(codec), ratios.decompress);
  }
  if (now.has_stand_in())
    for (Sourced<Curve>* const link : {&now.gpu->own->link.to_device, &now.gpu->own->link.to_host})
      link->value = scaled(link->value, ratios.copies);
  if (now.cpu.recover) now.cpu.recover->value = scaled(now.cpu.recover->value, ratios.recover);
  for (CpuExperts& experts : now.cpu.experts)
    if (ExpertShape{static_cast<std::size_t>(experts.hidden), static_cast<std::size_t>(experts.width),
                    experts.matrices} == shape)
      experts.seconds.value = scaled(experts.seconds.value, ratios.experts);
  if (now.cpu.peak) now.cpu.peak->value = now.cpu.peak->value / ratios.dense;
  if (now.cpu.bandwidth) now.cpu.bandwidth->value = now.cpu.bandwidth->value / ratios.dense;
  if (now.cpu.dense_launch) now.cpu.dense_launch->value = now.cpu.dense_launch->value * ratios.dense;
  return now;
}

ValidationCpu::ValidationCpu(const Architecture& model, std::uint32_t shards,
                             const std::vector<std::string>& codecs, bool copies)
    : shape_{static_cast<std::size_t>(model.hidden), static_cast<std::size_t>(model.moe().width),
             model.moe().matrices},
      elements_(pages(shape_.hidden * shape_.width)),
      shard_(pages(elements_ / shards)),
      shards_(shards),
      workspace_(options_for(shape_, shard_, copies ? 2 * elements_ : elements_, codecs)),
      join_(codecs.empty() ? nullptr
                           : join_operation(workspace_.tensor(), elements_, workspace_.far_output(0, 1))),
      copy_(copies ? copy_operation(workspace_.ones(), 2 * elements_, workspace_.far_output(0, 1)) : nullptr),
      expert_(expert_operation(workspace_.ones(), shape_, 1)),
      dense_(beyond_caches(true), DenseKernel::kUsualColumns) {
  for (const std::string& codec : codecs)
    decompress_[codec] = decompress_operation(
        workspace_.shards(codec, shard_), workspace_.tensor().exponents.bytes(), workspace_.near_output(0));
}

std::uint64_t ValidationCpu::bytes() {
  return 3 * std::uint64_t{beyond_caches(true)};
}

double ValidationCpu::found(const std::string& what, double seconds, double in_profile) {
  const double ratio = in_profile > 0 ? seconds / in_profile : 1;
  ratios_[what].push_back(ratio);
  return ratio;
}

ValidationCpu::Burst ValidationCpu::burst() {
  std::array<std::function<void()>, kWorks> works;
  if (decompression_ != nullptr) works[decompression] = [&] { decompression_->run(); };
  if (join_) works[join] = [&] { join_->run(); };
  works[experts] = [&] { expert_->run(); };
  if (dense_timed_) works[dense_kernel] = [&] { dense_.run(kDenseBytes, 1); };
  if (copy_) works[copy] = [&] { copy_->run(); };
  std::array<std::vector<double>, kWorks> seconds;
  for (int turn = 0; turn <= kTurns; ++turn)
    for (std::size_t i = 0; i < kWorks; ++i) {
      if (!works[i]) continue;
      const double begin = seconds_now();
      works[i]();
      if (turn > 0) seconds[i].push_back(seconds_now() - begin);  // the first warms up
    }
  Burst medians;
  for (std::size_t i = 0; i < kWorks; ++i) medians[i] = statistics_of(seconds[i]).median;
  return medians;
}

double ValidationCpu::changed_since() {
  double least = 0;
  for (int i = 0; i < kBursts; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    const Burst now = burst();
    double most = 1;
    for (std::size_t work = 0; work < kWorks; ++work)
      if (now[work] > 0 && latest_[work] > 0)
        most = std::max({most, now[work] / latest_[work], latest_[work] / now[work]});
    least = i == 0 ? most : std::min(least, most);
    if (least < kSteady) break;
  }
  return least;
}

double ValidationCpu::slowdown_while(const BenchWork& read) {
  std::vector<BenchWork> works = {[&] { expert_->run(); }};
  if (decompression_ != nullptr) works.emplace_back([&] { decompression_->run(); });
  const auto seconds = [&](std::size_t work, bool beside) {
    return team_seconds(std::span(works).subspan(work, 1), std::span(&read, beside ? 1 : 0), kTurns);
  };
  for (int i = 0; i < kBursts; ++i)
    for (std::size_t work = 0; work < works.size(); ++work) {
      const bool first = i % 2 == 0;  // what comes second may find the caches warmer, or the disk busier
      std::array<double, 2> taken{};  // alone, beside reads
      for (const bool beside : {first, !first}) taken[beside ? 1 : 0] = seconds(work, beside);
      reading_ratios_.push_back(taken[1] / taken[0]);
    }
  return std::max(1.0, statistics_of(reading_ratios_).median);
}

DeviceProfile ValidationCpu::now(const DeviceProfile& device, const std::string& codec,
                                 const std::string& in_profile, bool dense) {
  BenchOperation* const decompress = codec.empty() ? nullptr : decompress_.at(codec).get();
  decompression_ = decompress;
  dense_timed_ = dense;
  std::array<std::vector<double>, kWorks> bursts;
  std::vector<double> hand_overs;
  for (int i = 0; i < kBursts; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    const Burst one = burst();
    for (std::size_t work = 0; work < kWorks; ++work) bursts[work].push_back(one[work]);
    hand_overs.push_back(hand_over_burst(worker_));
  }
  for (std::size_t work = 0; work < kWorks; ++work) latest_[work] = statistics_of(bursts[work]).median;

  CpuRatios ratios;
  const CpuProfile& cpu = device.cpu;
  if (const double both_ways = cpu.dispatch.value.value(); both_ways > 0)
    hand_over_ratios_.push_back(2 * statistics_of(hand_overs).median / both_ways);
  const auto elements = static_cast<double>(elements_);
  if (decompress != nullptr && device.has_stand_in())
    ratios.decode = found("decode " + codec, latest_[decompression] * shards_ + latest_[join],
                          2 * elements / device.gpu->codecs.at(in_profile).rate.value.value());
  else if (decompress != nullptr)
    ratios.decompress =
        found("decompress " + codec, latest_[decompression],
              device.codecs.at(in_profile).decompress_seconds(Bytes(static_cast<double>(shard_))).value());
  if (join_ && cpu.recover && !device.has_stand_in())
    ratios.recover = found("recover", latest_[join], cpu.recover->value(elements));
  if (copy_ && device.has_stand_in())
    ratios.copies = found("copy", latest_[copy], device.gpu->own->link.to_device.value(2 * elements));
  for (const CpuExperts& e : cpu.experts)
    if (e.hidden == static_cast<int>(shape_.hidden) && e.width == static_cast<int>(shape_.width) &&
        e.matrices == shape_.matrices)
      ratios.experts = found("experts", latest_[experts], e.seconds.value(1));
  if (dense && cpu.peak && cpu.bandwidth) {
    const double bytes = static_cast<double>(kDenseBytes);  // as many operations, for one token
    ratios.dense = found("dense", latest_[dense_kernel],
                         std::max(bytes / cpu.bandwidth->value.value(), bytes / cpu.peak->value.value()));
  }
  return scaled_cpu(device, in_profile, shape_, ratios);
}

}  // namespace moelab
