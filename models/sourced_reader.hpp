// Reads a profile's values, each of the form `{value: 3.5 GB/s, source: datasheet}`, with an optional
// `spread: [p10, p50, p90]`, and keeps account of where they are from.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/device.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {

class SourcedReader {
 public:
  /// `account`, a profile's, is filled as values are read.
  explicit SourcedReader(SourcedNumbers& account) : account_(account) {}
  void sources(const YamlMap& root);

  // Each reads section[key]; `path` is its name in provenance and messages.

  template <class Q>
  Sourced<Q> quantity(const YamlMap& section, const std::string& path, std::string_view key, Range<Q> range) {
    return read<Q>(
        section, path, key, [&](const YamlMap& entry) { return entry.quantity<Q>("value", range); },
        [&](const YamlNode& node) { return node.quantity<Q>("a percentile", range).value(); },
        [](double x) { return to_string(Q(x)); });
  }
  Sourced<double> number(const YamlMap& section, const std::string& path, std::string_view key,
                         Range<double> range);
  Sourced<int> integer(const YamlMap& section, const std::string& path, std::string_view key, int low,
                       int high);
  Sourced<std::vector<double>> factors(const YamlMap& section, const std::string& path, std::string_view key);
  /// What the amounts of a curve count.
  enum class Amount { bytes, elements, tokens };
  /// `{points: [[4 KiB, 50 us], ...]}` or, of bytes, `{latency: 76 us, rate: 3.5 GB/s}`.
  Sourced<Curve> curve(const YamlMap& section, const std::string& path, std::string_view key,
                       Amount amount = Amount::bytes);
  /// What the source says that an entry's `source` names; of something that is no number.
  std::string source_text(const YamlMap& entry) const;

 private:
  template <class T, class ReadValue, class ReadPercentile, class Show>
  Sourced<T> read(const YamlMap& section, const std::string& path, std::string_view key, ReadValue read_value,
                  ReadPercentile read_percentile, Show show) {
    const YamlMap entry = section.map(key,
                                      "a map that says where it is from, {value: ..., source: ...}; to set "
                                      "the number alone, add '.value' to the key");
    Sourced<T> out{read_value(entry), {}};
    out.source = source(entry);
    out.spread = spread(entry, path, read_percentile);
    entry.done();
    record(path, out.source, out.spread ? shown(*out.spread, show) : "");
    return out;
  }
  template <class ReadPercentile>
  std::optional<Spread> spread(const YamlMap& entry, const std::string& path,
                               ReadPercentile percentile) const {
    if (!entry.has("spread")) return std::nullopt;
    const std::vector<YamlNode> items = entry.list("spread");
    if (items.size() != 3) {
      if (entry.node("spread").is_list())
        entry.fail("spread", "the spread of " + path + " has " + std::to_string(items.size()) +
                                 " values; expected three percentiles, [p10, p50, p90]");
      return std::nullopt;
    }
    const Spread s{percentile(items[0]), percentile(items[1]), percentile(items[2])};
    if (s.p50 < s.p10 || s.p90 < s.p50)
      entry.fail("spread", "the spread of " + path + " falls; expected [p10, p50, p90] in rising order");
    return s;
  }
  template <class Show>
  static std::string shown(const Spread& s, Show show) {
    return "; p10 " + show(s.p10) + ", p50 " + show(s.p50) + ", p90 " + show(s.p90);
  }
  std::vector<CurvePoint> points(const YamlMap& entry, Amount amount) const;
  Curve points_or_affine(const YamlMap& entry, Amount amount) const;
  std::string source(const YamlMap& entry) const;
  void record(const std::string& path, const std::string& source, const std::string& spread);

  SourcedNumbers& account_;
  std::vector<std::string> names_;
};

}  // namespace moelab
