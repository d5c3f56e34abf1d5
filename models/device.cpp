#include "models/device.hpp"

#include <array>

#include "models/config_store.hpp"

namespace moelab {
namespace {

const std::vector<std::string> kKindNames = {"measured", "datasheet", "paper", "derived", "assumed"};

/// Reads numbers of the form `{value: 3.5 GB/s, source: datasheet}` and keeps account of where they are from.
class ProfileReader {
 public:
  explicit ProfileReader(DeviceProfile& profile) : profile_(profile) {}

  void sources(const YamlMap& root) {
    const YamlMap list = root.map("sources");
    for (const std::string& key : list.keys()) {
      const YamlMap entry = list.map(key);
      const auto kind = static_cast<Source::Kind>(entry.choice("kind", kKindNames));
      profile_.sources[key] = {key, kind, entry.text("text")};
      names_.push_back(key);
      entry.done();
    }
  }

  template <class Q>
  Sourced<Q> quantity(const YamlMap& section, const std::string& path, std::string_view key, Range<Q> range) {
    const YamlMap entry = section.map(key);
    Sourced<Q> out{entry.quantity<Q>("value", range), source(entry, path)};
    entry.done();
    return out;
  }
  Sourced<double> number(const YamlMap& section, const std::string& path, std::string_view key,
                         Range<double> range) {
    const YamlMap entry = section.map(key);
    Sourced<double> out{entry.number("value", range), source(entry, path)};
    entry.done();
    return out;
  }
  Sourced<int> integer(const YamlMap& section, const std::string& path, std::string_view key, int low,
                       int high) {
    const YamlMap entry = section.map(key);
    Sourced<int> out{static_cast<int>(entry.integer("value", low, high)), source(entry, path)};
    entry.done();
    return out;
  }
  /// `{points: [[4 KiB, 50 us], ...], source}` or `{latency: 76 us, rate: 3.5 GB/s, source}`.
  Sourced<Curve> curve(const YamlMap& section, const std::string& path, std::string_view key) {
    const YamlMap entry = section.map(key);
    Sourced<Curve> out{entry.has("points") ? points(entry) : affine(entry), source(entry, path)};
    entry.done();
    return out;
  }
  Sourced<std::vector<double>> factors(const YamlMap& section, const std::string& path,
                                       std::string_view key) {
    const YamlMap entry = section.map(key);
    Sourced<std::vector<double>> out;
    for (const YamlNode& item : entry.list("value"))
      out.value.push_back(item.number(path, Range<double>{1, 1e6}));
    if (out.value.empty()) {
      entry.fail(
          "value",
          path + " lists no factor; expected one for each number of concurrent reads, such as [1, 2, 3]");
      out.value = {1};
    }
    out.source = source(entry, path);
    entry.done();
    return out;
  }

 private:
  Curve affine(const YamlMap& entry) const {
    const auto latency = entry.quantity<Seconds>("latency", at_least(Seconds(0)));
    const auto rate = entry.quantity<BytesPerSecond>("rate", above(BytesPerSecond(0)));
    return rate.value() > 0 ? Curve::affine(latency.value(), rate.value()) : Curve({{0, 0}});
  }
  Curve points(const YamlMap& entry) const {
    std::vector<CurvePoint> list;
    for (const YamlNode& item : entry.list("points")) {
      const std::vector<YamlNode> pair = item.list("a point of the curve");
      if (pair.size() != 2) {
        item.fail("a point of the curve has " + std::to_string(pair.size()) +
                  " values; expected [size, time], such as [1 MiB, 330 us]");
        continue;
      }
      list.push_back({pair[0].quantity<Bytes>("size", at_least(Bytes(0))).value(),
                      pair[1].quantity<Seconds>("time", at_least(Seconds(0))).value()});
    }
    if (const std::string problem = Curve::problem_with(list); !problem.empty()) {
      entry.fail("points", problem);
      return Curve({{0, 0}});
    }
    return Curve(std::move(list));
  }
  std::string source(const YamlMap& entry, const std::string& path) {
    const std::string key = entry.text("source");
    const auto found = profile_.sources.find(key);
    if (found == profile_.sources.end()) {
      if (!key.empty())
        entry.fail("source", "'" + key + "' is not among the profile's sources" + suggestion(key, names_));
      return key;
    }
    const Source& s = found->second;
    profile_.provenance.push_back(path + ": " + std::string(to_string(s.kind)) + " (" + s.text + ")");
    if (s.kind != Source::Kind::measured) profile_.unmeasured = true;
    return key;
  }

  DeviceProfile& profile_;
  std::vector<std::string> names_;
};

}  // namespace

std::string_view to_string(Source::Kind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

DeviceProfile read_device(const YamlDocument& document) {
  DeviceProfile d;
  const YamlMap root = document.root();
  ProfileReader read(d);
  d.name = root.text("name");
  d.title = root.text("title");
  read.sources(root);

  const YamlMap memory = root.map("memory");
  d.memory.total = read.quantity(memory, "memory.total", "total", above(Bytes(0)));
  d.memory.system_reserve =
      read.quantity(memory, "memory.system_reserve", "system_reserve", at_least(Bytes(0)));
  d.memory.bandwidth = read.quantity(memory, "memory.bandwidth", "bandwidth", above(BytesPerSecond(0)));
  if (memory.has("controller"))
    d.memory.controller = read.quantity(memory, "memory.controller", "controller", above(BytesPerSecond(0)));
  if (d.memory.controller && d.memory.controller->value < d.memory.bandwidth.value)
    memory.fail("controller",
                "memory.controller is less than memory.bandwidth, which the GPU alone moves through it");
  memory.done();

  const YamlMap cpu = root.map("cpu");
  d.cpu.threads = read.integer(cpu, "cpu.threads", "threads", 1, 4096);
  d.cpu.dispatch = read.quantity(cpu, "cpu.dispatch", "dispatch", at_least(Seconds(0)));
  cpu.done();

  const YamlMap ssd = root.map("ssd");
  d.ssd.read = read.curve(ssd, "ssd.read", "read");
  d.ssd.slowdown_while_decompressing =
      read.number(ssd, "ssd.slowdown_while_decompressing", "slowdown_while_decompressing", {1, 100});
  d.ssd.readers = read.factors(ssd, "ssd.readers", "readers");
  ssd.done();

  const YamlMap cache = root.map("page_cache");
  d.page_cache.read = read.curve(cache, "page_cache.read", "read");
  cache.done();

  const YamlMap codecs = root.map("codecs");
  for (const std::string& name : codecs.keys()) {
    const YamlMap codec = codecs.map(name);
    const std::string path = "codecs." + name;
    d.codecs[name] = {read.number(codec, path + ".ratio", "ratio", {0, 1.1, true}),
                      read.quantity(codec, path + ".decompress", "decompress", above(BytesPerSecond(0)))};
    codec.done();
  }
  codecs.done();

  const YamlMap gpu = root.map("gpu");
  d.gpu.peak = read.quantity(gpu, "gpu.peak", "peak", above(FlopsPerSecond(0)));
  d.gpu.flops_efficiency = read.number(gpu, "gpu.flops_efficiency", "flops_efficiency", {0, 1, true});
  d.gpu.launch = read.quantity(gpu, "gpu.launch", "launch", at_least(Seconds(0)));
  gpu.done();
  root.done();
  return d;
}

DeviceProfile load_device(std::string_view name, const std::filesystem::path& base) {
  const ConfigText config = find_config("devices", name, base);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  DeviceProfile device = read_device(document);
  problems.throw_if_any();
  return device;
}

}  // namespace moelab
