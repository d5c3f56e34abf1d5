// For the tests of importers: random routing, and files of other programs' formats put together without the
// code under test.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/traces/trace_files.hpp"
#include "traces/random.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::test {

/// Routing as a plain table, to be written in any form and compared with a trace.
struct Table {
  std::uint32_t layers = 0, experts = 0, top_k = 0;
  bool scores = false;
  std::vector<std::uint64_t> requests;  // rows of each
  std::vector<Phase> phases;            // [tokens]
  std::vector<std::uint16_t> ids;       // [tokens, layers, k]
  std::vector<float> gate;              // the same where there are scores
  std::uint64_t tokens() const { return phases.size(); }
};

inline Table random_table(Random& random) {
  Table t;
  t.layers = 1 + static_cast<std::uint32_t>(random.below(4));
  t.experts = 1 + static_cast<std::uint32_t>(random.below(9));
  t.top_k = 1 + static_cast<std::uint32_t>(random.below(std::min(t.experts, 4U)));
  t.scores = random.below(2) == 0;
  const std::uint64_t requests = 1 + random.below(3);
  for (std::uint64_t r = 0; r < requests; ++r) {
    t.requests.push_back(1 + random.below(4));
    const std::uint64_t prompt = random.below(t.requests.back() + 1);
    for (std::uint64_t i = 0; i < t.requests.back(); ++i) {
      t.phases.push_back(i < prompt ? Phase::prefill : Phase::decode);
      for (std::uint32_t layer = 0; layer < t.layers; ++layer) {
        std::vector<std::uint16_t> order(t.experts);
        for (std::uint32_t e = 0; e < t.experts; ++e) order[e] = static_cast<std::uint16_t>(e);
        random.shuffle(std::span(order));
        const bool runs = random.below(8) != 0;
        for (std::uint32_t k = 0; k < t.top_k; ++k) {
          t.ids.push_back(runs ? order[k] : kNoExpert);
          if (t.scores) t.gate.push_back(runs ? static_cast<float>(random.below(1000)) / 64 : 0.0F);
        }
      }
    }
  }
  return t;
}

/// What differs between a trace and a table; empty where nothing does.
inline std::string difference(const RoutingTrace& trace, const Table& t) {
  if (trace.tokens() != t.tokens() || trace.layers() != t.layers || trace.experts() != t.experts ||
      trace.top_k() != t.top_k || trace.has_scores() != t.scores ||
      trace.requests().size() != t.requests.size())
    return "sizes";
  std::uint64_t row = 0;
  for (std::size_t r = 0; r < t.requests.size(); row += t.requests[r++]) {
    if (trace.requests()[r].begin != row || trace.requests()[r].end != row + t.requests[r]) return "requests";
  }
  for (std::uint64_t token = 0; token < t.tokens(); ++token) {
    if (trace.phase_of(token) != t.phases[token]) return "phase of token " + std::to_string(token);
    for (std::uint32_t layer = 0; layer < t.layers; ++layer) {
      const std::size_t first = (token * t.layers + layer) * t.top_k;
      for (std::uint32_t k = 0; k < t.top_k; ++k) {
        if (trace.experts_of(token, layer)[k] != t.ids[first + k])
          return "ids of token " + std::to_string(token);
        if (t.scores && trace.scores_of(token, layer)[k] != t.gate[first + k])
          return "scores of token " + std::to_string(token);
      }
    }
  }
  return {};
}

inline std::string id_text(std::uint16_t id) {
  return id == kNoExpert ? "-1" : std::to_string(id);
}

/// An .npy file of version 1, as https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html says.
inline std::string npy(const std::string& descr, const std::vector<std::uint64_t>& shape,
                       const std::string& data) {
  std::string sizes;
  for (const std::uint64_t size : shape) sizes += std::to_string(size) + ",";
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) +
         bytes_of(std::vector<std::uint16_t>{static_cast<std::uint16_t>(header.size())}) + header + data;
}

/// A zip archive of stored members, as PKWARE's APPNOTE says.
inline std::string zip(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string file, directory;
  const auto put = [](std::string& to, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xff);
  };
  for (const auto& member : members) {
    const std::string &name = member.first, &data = member.second;
    const std::uint64_t offset = file.size();
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
    const auto common = [&](std::string& to) {
      put(to, 20, 2), put(to, 0, 2), put(to, 0, 2), put(to, 0, 4), put(to, crc, 4), put(to, data.size(), 4),
          put(to, data.size(), 4), put(to, name.size(), 2), put(to, 0, 2);
    };
    put(file, 0x04034b50, 4), common(file), file += name, file += data;
    put(directory, 0x02014b50, 4), put(directory, 20, 2), common(directory), put(directory, 0, 2),
        put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4), put(directory, offset, 4);
    directory += name;
  }
  const std::uint64_t begin = file.size();
  file += directory;
  put(file, 0x06054b50, 4), put(file, 0, 4), put(file, members.size(), 2), put(file, members.size(), 2),
      put(file, directory.size(), 4), put(file, begin, 4), put(file, 0, 2);
  return file;
}

inline void write_gzip(const std::filesystem::path& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

/// Flips, removes, doubles or inserts bytes at a few places, or cuts the end off.
inline std::string mutated(std::string bytes, Random& random) {
  const std::uint64_t changes = 1 + random.below(3);
  for (std::uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = random.below(bytes.size());
    switch (random.below(5)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 1:
        bytes.erase(at, 1 + random.below(8));
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, 1 + random.below(16)));
        break;
      case 3:
        bytes.insert(at, 1, "0123456789-,.\"\n[]{}eN\0"[random.below(23)]);
        break;
      default:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace moelab::test
