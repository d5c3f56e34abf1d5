// What memory and links carry, by the texts that data sheets and people have for them.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "models/input_error.hpp"
#include "models/lower_case.hpp"
#include "models/part.hpp"

namespace moelab {
namespace {

constexpr std::array<std::string_view, 9> kTypes{"ddr3",   "ddr4",    "ddr5",  "lpddr4", "lpddr4x",
                                                 "lpddr5", "lpddr5x", "hbm2e", "hbm3"};

bool is_memory_type(std::string_view type) {
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

/// "ddr5-4800" -> its type and transfers a second (0: not said). False: no memory.
bool read_type(std::string_view text, MemoryPart& memory) {
  const std::size_t dash = text.find('-');
  const std::string_view type = text.substr(0, dash);
  if (!is_memory_type(type)) return false;
  memory.type = std::string(type);
  if (dash == std::string_view::npos) return true;
  double mega = 0;
  const std::string_view digits = text.substr(dash + 1);
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), mega);
  if (error != std::errc() || mega < 100 || mega > 20000) return false;
  memory.transfers = mega * 1e6;
  return true;
}

/// The rate in "102 GB/s as the source says" or "unified 204.8 GB/s".
std::optional<BytesPerSecond> stated_rate(const std::string& text) {
  const std::size_t unit = text.find(" gb/s");
  if (unit == std::string::npos) return {};
  std::size_t begin = unit;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '.'))
    --begin;
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + unit, value);
  constexpr double kMost = 1e5;  // gigabytes a second: more than any memory
  // Behind a space or a bracket; of a range, "225-250 GB/s", the higher one.
  const char before = begin == 0 ? ' ' : text[begin - 1];
  const bool range = before == '-' && begin > 1 && std::isdigit(static_cast<unsigned char>(text[begin - 2]));
  const bool apart = before == ' ' || before == '(' || range;
  if (error != std::errc() || rest != text.data() + unit || value <= 0 || value > kMost || !apart) return {};
  return BytesPerSecond(value * 1e9);
}

/// "2 channels", "x 2"; -1: a number that is none of channels.
int stated_channels(const std::string& text) {
  constexpr int kMost = 64;
  int count = 0;
  if (text.ends_with(" x")) return -1;
  if (const std::size_t word = text.find(" channel"); word != std::string::npos) {
    std::size_t begin = word;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1]))) --begin;
    std::from_chars(text.data() + begin, text.data() + word, count);
  } else if (const std::size_t times = text.find(" x "); times != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + times + 3, end, count);
    const bool ends = rest == end || *rest == ' ' || *rest == ',' || *rest == ')';
    if (error != std::errc() || !ends || count < 1 || count > kMost) return -1;
  }
  return count > kMost ? -1 : count;
}

}  // namespace

MemoryPart read_memory(std::string_view text, const CpuPart* cpu) {
  const std::string lower = lower_case(std::string(text));
  MemoryPart memory;
  memory.stated = stated_rate(lower);
  memory.channels = stated_channels(lower);
  const std::string first = lower.substr(0, lower.find_first_of(", "));
  const bool open = lower.empty() || lower.starts_with("not stated") || lower.starts_with("unified");
  const bool rate_is_none = lower.find(" gb/s") != std::string::npos && !memory.stated;
  if ((!open && !read_type(first, memory)) || memory.channels < 0 || rate_is_none)
    throw InputError("",
                     "memory '" + std::string(text) +
                         "': expected modules and channels, such as 'ddr5-6000 x 2', or 'unified 273 GB/s'");
  if (cpu == nullptr) return memory;
  MemoryPart own;
  (void)read_type(cpu->memory, own);
  if (memory.type.empty()) {
    memory.type = own.type;
    if (!memory.stated) memory.stated = cpu->bandwidth;
  } else if (memory.type.substr(0, 4) != own.type.substr(0, 4) && !cpu->bandwidth &&
             own.type.starts_with("ddr")) {
    const bool both = cpu->generation == "alder-lake" || cpu->generation == "raptor-lake";
    if (!both || !memory.type.starts_with("ddr4"))
      throw InputError("", "memory '" + std::string(text) + "': " + cpu->title + " takes " + own.type +
                               (both ? " or ddr4" : ""));
  }
  if (memory.transfers == 0) memory.transfers = own.transfers;
  if (memory.channels == 0) memory.channels = cpu->channels;
  return memory;
}

BytesPerSecond link_rate(std::string_view link) {
  if (link == "nvlink-c2c") return BytesPerSecond(450e9);
  // Giga-transfers a second and lane: 128 of 130 bits are data.
  constexpr std::array<double, 7> rates{0,
                                        0.25e9,
                                        0.5e9,
                                        8e9 / 8 * 128 / 130,
                                        16e9 / 8 * 128 / 130,
                                        32e9 / 8 * 128 / 130,
                                        64e9 / 8 * 242 / 256};
  const std::size_t dash = link.find("-x");
  int lanes = 0;
  if (link.starts_with("pcie") && link.size() > 4 && dash == 5 && link[4] >= '1' && link[4] <= '6') {
    const char* const end = link.data() + link.size();
    const auto [rest, error] = std::from_chars(link.data() + dash + 2, end, lanes);
    if (error == std::errc() && rest == end && lanes >= 1 && lanes <= 32)
      return BytesPerSecond(rates[static_cast<std::size_t>(link[4] - '0')] * lanes);
  }
  throw InputError("", "link '" + std::string(link) + "': expected 'pcie4-x16' and its like, or nvlink-c2c");
}

}  // namespace moelab
