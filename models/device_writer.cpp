#include "models/device_writer.hpp"

#include <utility>
#include <vector>

#include "models/yaml_reader.hpp"
#include "models/yaml_text.hpp"

namespace moelab {
namespace {

using yaml::key;
using yaml::number;

template <class Q>
constexpr auto exactly = [](double x) { return to_exact_string(Q(x)); };
constexpr auto whole = [](double x) { return std::to_string(static_cast<long long>(x)); };

template <class T, class Show>
std::string list(const T& values, Show show) {
  std::string text = "[";
  for (const auto& value : values) text += (text.size() > 1 ? ", " : "") + show(value);
  return text + "]";
}

/// `{WHAT, spread: [...], source: NAME}`.
template <class T, class Show>
std::string entry(const std::string& what, const Sourced<T>& from, Show show_percentile) {
  std::string text = "{" + what;
  if (const auto& s = from.spread)
    text += ", spread: " + list(std::vector<double>{s->p10, s->p50, s->p90}, show_percentile);
  return text + ", source: " + key(from.source) + "}";
}

template <class Q>
std::string entry(const Sourced<Q>& q) {
  return entry("value: " + to_exact_string(q.value), q, exactly<Q>);
}
std::string entry(const Sourced<double>& q) {
  return entry("value: " + number(q.value), q, number);
}
std::string entry(const Sourced<int>& q) {
  return entry("value: " + std::to_string(q.value), q, whole);
}
std::string entry(const Sourced<std::vector<double>>& q) {
  return entry("value: " + list(q.value, number), q, number);
}

template <class Show>
std::string entry(const Sourced<Curve>& q, Show show_amount) {
  const auto point = [&](const CurvePoint& p) {
    return "[" + show_amount(p.amount) + ", " + to_exact_string(Seconds(p.seconds)) + "]";
  };
  return entry("points: " + list(q.value.points(), point), q, number);
}
/// Of bytes: as latency and rate where it was made of those.
std::string entry(const Sourced<Curve>& q) {
  const std::vector<CurvePoint>& points = q.value.points();
  if (points.size() == 2 && q.value == Curve::affine(points[0].seconds, points[1].amount))
    return entry("latency: " + to_exact_string(Seconds(points[0].seconds)) +
                     ", rate: " + to_exact_string(BytesPerSecond(points[1].amount)),
                 q, number);
  return entry(q, exactly<Bytes>);
}

class Lines {
 public:
  void section(const std::string& name, int depth = 0) { add(name, "", depth); }
  void add(const std::string& name, const std::string& value, int depth = 1) {
    text_ += std::string(2 * static_cast<std::size_t>(depth), ' ') + name + (value.empty() ? ":" : ": ") +
             value + "\n";
  }
  template <class T>
  void add_if(const std::string& name, const std::optional<Sourced<T>>& value, int depth = 1) {
    if (value) add(name, entry(*value), depth);
  }
  void raw(const std::string& line) { text_ += line; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void write_head(const DeviceProfile& d, Lines& out) {
  out.add("name", yaml::quoted(d.name), 0);
  out.add("title", yaml::quoted(d.title), 0);
  if (d.sources.empty()) {
    out.add("sources", "{}", 0);
  } else {
    out.section("sources");
    for (const auto& [name, source] : d.sources)
      out.add(key(name),
              "{kind: " + std::string(to_string(source.kind)) + ", text: " + yaml::quoted(source.text) + "}");
  }
  if (!d.measured_on) return;
  const MeasuredOn& m = *d.measured_on;
  out.section("measured_on");
  const std::vector<std::pair<const char*, const std::string&>> fields = {{"cpu", m.machine.cpu},
                                                                          {"kernel", m.machine.kernel},
                                                                          {"driver", m.machine.driver},
                                                                          {"gpu", m.machine.gpu},
                                                                          {"date", m.date},
                                                                          {"command", m.command},
                                                                          {"libraries", m.libraries}};
  for (const auto& [name, value] : fields) out.add(name, yaml::quoted(value));
}

void write_memory(const MemoryProfile& m, Lines& out) {
  out.section("memory");
  out.add("total", entry(m.total));
  out.add("system_reserve", entry(m.system_reserve));
  out.add_if("bandwidth", m.bandwidth);
  out.add_if("controller", m.controller);
}

void write_cpu(const CpuProfile& c, Lines& out) {
  out.section("cpu");
  out.add("threads", entry(c.threads));
  out.add("dispatch", entry(c.dispatch));
  if (c.recover) out.add("recover", entry(*c.recover, whole));
  if (!c.experts.empty()) out.section("experts", 1);
  for (const CpuExperts& e : c.experts)
    out.raw("    - {hidden: " + std::to_string(e.hidden) + ", width: " + std::to_string(e.width) +
            ", matrices: " + std::to_string(e.matrices) + ", seconds: " + entry(e.seconds, whole) + "}\n");
  out.add_if("peak", c.peak);
  out.add_if("bandwidth", c.bandwidth);
  out.add_if("dense_launch", c.dense_launch);
  out.add_if("sharing", c.sharing);
  out.add_if("slowdown_while_reading", c.slowdown_while_reading);
}

void write_storage(const DeviceProfile& d, Lines& out) {
  out.section("ssd");
  out.add("read", entry(d.ssd.read));
  out.add("slowdown_while_decompressing", entry(d.ssd.slowdown_while_decompressing));
  out.add("readers", entry(d.ssd.readers));
  out.section("page_cache");
  out.add("read", entry(d.page_cache.read));
}

void write_codecs(const std::map<std::string, CodecProfile>& codecs, Lines& out) {
  if (codecs.empty()) return out.add("codecs", "{}", 0);
  out.section("codecs");
  for (const auto& [name, codec] : codecs) {
    out.section(key(name), 1);
    out.add("ratio", entry(codec.ratio), 2);
    out.add("decompress", std::visit([](const auto& d) { return entry(d); }, codec.decompress), 2);
  }
}

void write_streaming(const GpuProfile& g, Lines& out) {
  if (!g.codecs.empty()) out.section("codecs", 1);
  for (const auto& [name, codec] : g.codecs) {
    out.section(key(name), 2);
    out.add("ratio", entry(codec.ratio), 3);
    out.add("rate", entry(codec.rate), 3);
  }
  out.add_if("remap", g.remap);
  if (!g.node) return;
  out.section("node", 1);
  out.add("gpus", entry(g.node->gpus), 2);
  if (g.node->all_reduce.empty()) return out.add("all_reduce", "[]", 2);
  out.section("all_reduce", 2);
  for (const AllReduceProfile& reduce : g.node->all_reduce)
    out.raw("      - {gpus: " + std::to_string(reduce.gpus) + ", seconds: " + entry(reduce.seconds) + "}\n");
}

void write_gpu(const GpuProfile& g, Lines& out) {
  out.section("gpu");
  if (g.stand_in) {
    out.add("stand_in", "true");
  } else {
    out.add("peak", entry(g.peak));
    out.add("flops_efficiency", entry(g.flops_efficiency));
    out.add("launch", entry(g.launch));
  }
  if (!g.own) return;
  out.add("memory", entry(g.own->total));
  out.add("reserve", entry(g.own->reserve));
  if (!g.stand_in) out.add("bandwidth", entry(g.own->bandwidth));
  out.section("link", 1);
  out.add("to_device", entry(g.own->link.to_device), 2);
  out.add("to_host", entry(g.own->link.to_host), 2);
  out.add_if("pageable", g.own->link.pageable, 2);
  write_streaming(g, out);
}

/// Everything of a profile but what reading fills in.
DeviceProfile without_account(DeviceProfile d) {
  d.provenance.clear();
  d.unmeasured = false;
  return d;
}

std::string unchecked_text(const DeviceProfile& profile) {
  Lines out;
  write_head(profile, out);
  write_memory(profile.memory, out);
  write_cpu(profile.cpu, out);
  write_storage(profile, out);
  write_codecs(profile.codecs, out);
  if (profile.gpu) write_gpu(*profile.gpu, out);
  return out.text();
}

DeviceProfile read_back(const DeviceProfile& profile, const std::string& text) {
  Problems problems;
  DeviceProfile back = read_device(YamlDocument::from_text("profile '" + profile.name + "'", text, problems));
  problems.throw_if_any();
  if (without_account(back) != without_account(profile))
    throw InputError("profile '" + profile.name + "'",
                     "holds text that is not UTF-8, or sources under other names than their own");
  return back;
}

}  // namespace

std::string device_to_yaml(const DeviceProfile& profile) {
  std::string text = unchecked_text(profile);
  read_back(profile, text);
  return text;
}

DeviceProfile as_read(const DeviceProfile& profile) {
  return read_back(profile, unchecked_text(profile));
}

}  // namespace moelab
