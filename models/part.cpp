#include "models/part.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <type_traits>
#include <utility>

#include "models/config_store.hpp"
#include "models/hourly_rates.hpp"
#include "models/input_error.hpp"
#include "models/lower_case.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {
namespace {

/// Of byte_products while a table is read: neither the row nor its generation has said.
constexpr double kNotSaid = 0;

template <class Part>
struct Parts {
  std::vector<Part> all;
  std::map<std::string, std::size_t> by_name;   // aliases too
  std::map<std::string, double> byte_products;  // of generations
  std::map<std::string, DecodeSpeeds> decompress;
};

const std::vector<std::string> kGpuMakers = {"nvidia", "amd", "apple", "intel"};

/// A frequency: "4.5 GHz".
double read_clock(const YamlMap& map, std::string_view key) {
  const std::string text = map.text(key);
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (error == std::errc() && number > 0 && number < 20 && unit == " GHz") return number * 1e9;
  map.fail(key, "expected a clock such as '4.5 GHz'");
  return 1e9;
}

/// What a part is rated at, in watts; 0 where it does not say.
double read_power(const YamlMap& map) {
  if (!map.has("power")) return 0;
  const std::string text = map.text("power");
  double watts = 0;
  std::string expected;
  if (!parse_power(text, watts, expected))
    map.fail("power", "'" + shown_word(text) + "' for power; expected " + expected);
  return watts;
}

void check_link(const YamlMap& map, std::string_view key, const std::string& link) {
  if (link.empty()) return;
  try {
    (void)link_rate(link);
  } catch (const InputError& error) {
    map.fail(key, error.problems().front().what);
  }
}

GpuPart read_gpu(const YamlMap& map) {
  GpuPart part;
  part.maker = kGpuMakers[map.choice("maker", kGpuMakers)];
  part.generation = map.text("generation");
  part.memory = map.quantity<Bytes>("memory", at_least(Bytes(0)), Bytes(0));
  // "24 GB" on a board is 24 GiB.
  part.memory = Bytes(part.memory.value() / 1e9 * 0x1p30);
  part.bandwidth = map.quantity<BytesPerSecond>("bandwidth", above(BytesPerSecond(0)));
  part.peak = map.quantity<FlopsPerSecond>("peak", above(FlopsPerSecond(0)));
  part.link = map.text("link", "");
  const bool unified = map.boolean("unified", false);
  if (unified == !part.link.empty()) map.fail("link", "expected either 'unified: true' or a link");
  check_link(map, "link", part.link);
  if (!unified && part.memory.value() == 0)
    map.fail("memory", "expected the memory of a GPU that has a link");
  if (unified && map.has("memory"))
    map.fail("memory", "is the host's where 'unified: true'; the machine's ram says how much");
  part.cpu = map.text("cpu", "");
  part.ssd_slot = map.text("ssd_slot", "");
  check_link(map, "ssd_slot", part.ssd_slot);
  part.peer_link = map.quantity<BytesPerSecond>("peer_link", above(BytesPerSecond(0)), BytesPerSecond(0));
  part.byte_products = map.has("byte_products") ? map.number("byte_products", {1, 64}) : kNotSaid;
  part.watts = read_power(map);
  return part;
}

CpuPart read_cpu(const YamlMap& map) {
  CpuPart part;
  part.generation = map.text("generation");
  part.byte_products = kNotSaid;
  part.cores = static_cast<int>(map.integer("cores", 1, 1024));
  part.efficiency_cores = static_cast<int>(map.integer("efficiency_cores", 0, 1024, 0));
  part.clock = read_clock(map, "clock");
  part.flops_per_cycle = static_cast<int>(map.integer("flops", 1, 1024));
  part.amx = map.boolean("amx", false);
  part.memory = map.text("memory");
  part.channels = static_cast<int>(map.integer("channels", 1, 64));
  part.sockets = static_cast<int>(map.integer("sockets", 1, 8, 1));
  if (map.has("bandwidth"))
    part.bandwidth = map.quantity<BytesPerSecond>("bandwidth", above(BytesPerSecond(0)));
  part.watts = read_power(map);
  return part;
}

SsdPart read_ssd(const YamlMap& map) {
  SsdPart part;
  part.read = map.quantity<BytesPerSecond>("read", above(BytesPerSecond(0)));
  part.latency = map.quantity<Seconds>("latency", at_least(Seconds(0)));
  return part;
}

/// The section `byte_products` of a table: a generation's factor.
std::map<std::string, double> read_byte_products(const YamlMap& root) {
  std::map<std::string, double> factors;
  const YamlMap generations = root.map("byte_products");
  for (const std::string& name : generations.keys()) {
    const YamlMap map = generations.map(name);
    factors[name] = map.number("times", {1, 64});
    (void)map.text("source");
    map.done();
  }
  generations.done();
  return factors;
}

/// The section `decompress` of a table: what a core of a generation does.
std::map<std::string, DecodeSpeeds> read_decompress(const YamlMap& root) {
  std::map<std::string, DecodeSpeeds> all;
  const YamlMap generations = root.map("decompress");
  for (const std::string& name : generations.keys()) {
    const YamlMap map = generations.map(name);
    DecodeSpeeds speeds;
    speeds.lz4hc = map.quantity<BytesPerSecond>("lz4hc", above(BytesPerSecond(0)));
    speeds.zstd = map.quantity<BytesPerSecond>("zstd", above(BytesPerSecond(0)));
    if (map.has("clock")) speeds.clock = read_clock(map, "clock");
    speeds.source = map.text("source");
    map.done();
    all[name] = std::move(speeds);
  }
  generations.done();
  return all;
}

/// Each generation that a section names has to be some part's.
template <class Part, class Values>
void check_generations(const YamlMap& root, const char* section, const std::vector<Part>& parts,
                       const std::map<std::string, Values>& values) {
  for (const auto& of_generation : values)
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return part.generation == of_generation.first; }))
      root.fail(section, "no part is of generation '" + of_generation.first + "'");
}

/// What its generation has, where the part says nothing of its own.
template <class Part>
void set_byte_products(const std::map<std::string, double>& of_generations, Part& part) {
  if (part.byte_products != kNotSaid) return;
  const auto found = of_generations.find(part.generation);
  part.byte_products = found == of_generations.end() ? 1 : found->second;
}

template <class Part>
void add_generations(const YamlMap& root, Parts<Part>& parts) {
  parts.byte_products = read_byte_products(root);
  check_generations(root, "byte_products", parts.all, parts.byte_products);
  for (Part& part : parts.all) set_byte_products(parts.byte_products, part);
  if constexpr (std::is_same_v<Part, CpuPart>) {
    parts.decompress = read_decompress(root);
    check_generations(root, "decompress", parts.all, parts.decompress);
  }
}
void add_generations(const YamlMap&, Parts<SsdPart>&) {}

template <class Part>
Parts<Part> read_table(std::string_view table, Part (*read)(const YamlMap&)) {
  const ConfigText file = find_config("parts", table);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(file.name, file.text, problems);
  const YamlMap root = document.root();
  Parts<Part> parts;
  for (const YamlNode& node : root.list(table)) {
    const YamlMap map = node.map("a part");
    Part part = read(map);
    part.name = map.text("name");
    part.title = map.text("title", part.name);
    part.source = map.text("source");
    std::vector<std::string> names{part.name};
    for (const YamlNode& alias : map.list_or_empty("alias")) names.push_back(alias.text("an alias"));
    for (const std::string& name : names)
      if (!parts.by_name.emplace(name, parts.all.size()).second)
        map.fail("name", "'" + name + "' stands twice");
    parts.all.push_back(std::move(part));
    map.done();
  }
  add_generations(root, parts);
  root.done();
  problems.throw_if_any();
  return parts;
}

const Parts<GpuPart>& gpus() {
  static const Parts<GpuPart> parts = read_table<GpuPart>("gpus", read_gpu);
  return parts;
}
const Parts<CpuPart>& cpus() {
  static const Parts<CpuPart> parts = read_table<CpuPart>("cpus", read_cpu);
  return parts;
}
const Parts<SsdPart>& ssds() {
  static const Parts<SsdPart> parts = read_table<SsdPart>("ssds", read_ssd);
  return parts;
}

template <class Part>
const Part& find_part(const Parts<Part>& parts, std::string_view what, std::string_view name,
                      std::string_view expected = "") {
  const auto found = parts.by_name.find(std::string(name));
  if (found != parts.by_name.end()) return parts.all[found->second];
  std::vector<std::string> known;
  for (const auto& [known_name, index] : parts.by_name) known.push_back(known_name);
  throw InputError("", "unknown " + std::string(what) + " '" + shown_word(name) + "'" +
                           suggestion(name, known) + "; `moelab parts` lists them" + std::string(expected) +
                           ", and one of your own is named by its file, ending in .yaml");
}

/// A part of a user's own: a row of which the source may be left out.
template <class Part>
Part read_own(const YamlMap& map, Part (*read)(const YamlMap&)) {
  Part part = read(map);
  part.name = map.text("name");
  if (part.name.empty()) map.fail("name", "is empty: expected what the part is called");
  part.title = map.text("title", part.name);
  part.source = map.text("source", "its user, who names no source");
  part.own = true;
  map.done();
  return part;
}

/// A generation decides more than the part says of itself: one that no part of the catalogue has is a slip,
/// or must be described.
template <class Part>
void check_own_generation(const YamlMap& map, const Parts<Part>& parts, const std::string& generation,
                          const std::string& how_else) {
  std::set<std::string> known;
  for (const Part& part : parts.all) known.insert(part.generation);
  if (known.contains(generation)) return;
  const std::vector<std::string> names(known.begin(), known.end());
  map.fail("generation", "no part of the catalogue is of generation '" + shown_word(generation) + "'" +
                             suggestion(generation, names) + how_else);
}

GpuPart read_own_gpu(const YamlMap& map) {
  GpuPart part = read_own<GpuPart>(map, read_gpu);
  if (part.byte_products == kNotSaid)
    check_own_generation(map, gpus(), part.generation,
                         "; of a new one say byte_products (how many times as fast products of bytes are)");
  set_byte_products(gpus().byte_products, part);
  return part;
}
CpuPart read_own_cpu(const YamlMap& map) {
  CpuPart part = read_own<CpuPart>(map, read_cpu);
  check_own_generation(map, cpus(), part.generation, "; of a new one name the nearest");
  set_byte_products(cpus().byte_products, part);
  return part;
}
SsdPart read_own_ssd(const YamlMap& map) {
  return read_own<SsdPart>(map, read_ssd);
}

bool is_map_text(std::string_view text) {
  return text.starts_with('{');
}

template <class Part>
Part own_part(const std::string& text, Part (*read)(const YamlMap&)) {
  Problems problems;
  const YamlDocument document = YamlDocument::from_text("a part", text, problems);
  Part part = read(document.root());
  problems.throw_if_any();
  return part;
}

/// Words of a name in lower case: letters, digits and what is within one word ("i9-10900x", "8480+").
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isalnum(c) || c == '+')
      words.back() += static_cast<char>(std::tolower(c));
    else if (c == '(') {  // "(R)", "(16 threads used)"
      const std::size_t end = text.find(')', i);
      if (end == std::string_view::npos) break;
      i = end;
    } else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool has_digit(std::string_view word) {
  return std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// How well a CPU's name fits the words of a text: the letters of its own words that are among them. All
/// words of the model number must be; 0: one is not.
struct Fit {
  int letters = 0;
  bool whole = false;     // every word of the name
  bool numbered = false;  // the model number, which the 5 of "Ryzen 5" and the i9 of "Core i9" are not
};
Fit fit(const std::string& name, const std::vector<std::string>& words) {
  Fit fit{0, true};
  for (const std::string& word : words_of(name)) {
    const bool there = std::find(words.begin(), words.end(), word) != words.end();
    const bool number = has_digit(word) && !(word.size() == 1 || word.starts_with("i"));
    if (!there && number) return {};
    if (there) fit.letters += static_cast<int>(word.size());
    fit.whole = fit.whole && there;
    fit.numbered = fit.numbered || number;
  }
  return fit;
}

}  // namespace

bool CpuPart::avx512() const {
  constexpr std::array<std::string_view, 13> with{
      "skylake-sp",  "skylake-x",       "cascade-lake",   "cascade-lake-x", "ice-lake", "tiger-lake",
      "rocket-lake", "sapphire-rapids", "emerald-rapids", "granite-rapids", "zen4",     "zen4c",
      "zen5"};
  return std::find(with.begin(), with.end(), generation) != with.end();
}

void check_part_tables() {
  read_table<GpuPart>("gpus", read_gpu);
  read_table<CpuPart>("cpus", read_cpu);
  read_table<SsdPart>("ssds", read_ssd);
}

const std::vector<GpuPart>& gpu_parts() {
  return gpus().all;
}
const std::vector<CpuPart>& cpu_parts() {
  return cpus().all;
}
const std::vector<SsdPart>& ssd_parts() {
  return ssds().all;
}

namespace {

/// "rtx-4090-24gb" of "NVIDIA GeForce RTX 4090 24GB".
std::string catalogue_name(std::string_view text) {
  constexpr std::array<std::string_view, 4> kMakers{"nvidia", "geforce", "amd", "intel"};
  std::string name;
  for (const std::string& word : words_of(text))
    if (!word.empty() && std::find(kMakers.begin(), kMakers.end(), word) == kMakers.end())
      name += (name.empty() ? "" : "-") + word;
  return name;
}

}  // namespace

const GpuPart& find_gpu(std::string_view text) {
  const std::string spelt = catalogue_name(text);
  const std::string_view name = gpus().by_name.contains(spelt) ? std::string_view(spelt) : text;
  // "apple-m4-max-128gb": what works in the host's memory is one part, however much of it there is.
  const std::size_t dash = name.rfind('-');
  if (!gpus().by_name.contains(std::string(name)) && name.ends_with("gb") && dash != std::string_view::npos) {
    const auto found = gpus().by_name.find(std::string(name.substr(0, dash)));
    if (found != gpus().by_name.end() && gpus().all[found->second].unified())
      return gpus().all[found->second];
  }
  for (const GpuPart& part : gpus().all)
    if (catalogue_name(part.title) == spelt) return part;
  return find_part(gpus(), "GPU", name);
}
const SsdPart& find_ssd(std::string_view name) {
  return find_part(ssds(), "SSD", name);
}

const DecodeSpeeds* decode_speeds(std::string_view generation) {
  const auto found = cpus().decompress.find(std::string(generation));
  return found == cpus().decompress.end() ? nullptr : &found->second;
}

void check_part(PartKind kind, const YamlMap& map) {
  if (kind == PartKind::gpu) (void)read_own_gpu(map);
  if (kind == PartKind::cpu) (void)read_own_cpu(map);
  if (kind == PartKind::ssd) (void)read_own_ssd(map);
}

namespace {

/// What a part of a user's own says, with the name that messages have for it.
ConfigText text_of_part(const std::string& text, const std::string& base) {
  if (is_map_text(text)) return {"a part", text};
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::path(base) / text, none) &&
      !std::filesystem::exists(text, none))
    throw InputError("", "there is no file '" + shown_word(text) + "', which is to say what the part is");
  return find_config("parts", text, base);
}

}  // namespace

std::string held_part(PartKind kind, const std::string& text, const std::string& base) {
  if (!is_map_text(text) && !is_config_path(text)) return text;
  const ConfigText config = text_of_part(text, base);
  Problems problems;
  const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
  check_part(kind, document.root());
  problems.throw_if_any();
  return document.node().json();
}

GpuPart gpu_part(const std::string& text) {
  return is_map_text(text) ? own_part<GpuPart>(text, read_own_gpu) : find_gpu(text);
}
CpuPart cpu_part(const std::string& text) {
  return is_map_text(text) ? own_part<CpuPart>(text, read_own_cpu) : find_cpu(text);
}
SsdPart ssd_part(const std::string& text) {
  return is_map_text(text) ? own_part<SsdPart>(text, read_own_ssd) : find_ssd(text);
}

const CpuPart& find_cpu(std::string_view text) {
  const Parts<CpuPart>& parts = cpus();
  const std::vector<std::string> words = words_of(text);
  Fit best;
  std::size_t which = 0;
  for (const auto& [name, index] : parts.by_name) {
    if (name == text) return parts.all[index];
    const Fit fits = fit(name, words);
    if ((fits.whole || fits.numbered) && fits.letters > best.letters) best = fits, which = index;
  }
  if (best.letters > 0) return parts.all[which];
  return find_part(parts, "CPU", text, ": a name has its model's number, as in 'i9-14900K'");
}

}  // namespace moelab
