#include "traces/import/cache_trace_export.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "traces/atomic_file.hpp"

namespace moelab {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they stand in memory");

constexpr std::int64_t kNever = -1;
constexpr std::size_t kAccessesOfBlock = std::size_t{1} << 20;

struct Access {
  std::uint32_t token = 0;
  std::uint64_t object = 0;
  std::int64_t next = kNever;
};

// Next accesses are known from the back, the file is written from the front: a pass from the back keeps, for
// each block of tokens, the next access to every object after it; then each block is worked out by itself.
class Exporter {
 public:
  Exporter(const RoutingTrace& trace, CacheTraceKind kind, std::optional<std::uint32_t> layer)
      : trace_(trace),
        kind_(kind),
        first_layer_(layer.value_or(0)),
        end_layer_(layer ? *layer + 1 : trace.layers()) {
    const std::size_t accesses = std::size_t{end_layer_ - first_layer_} * trace.top_k();
    block_ = std::max<std::uint64_t>(1, kAccessesOfBlock / accesses);
    blocks_ = (trace.tokens() + block_ - 1) / block_;
  }

  std::uint64_t run(const std::filesystem::path& out, const Progress& progress) {
    std::uint64_t total = 0;
    for (std::uint64_t token = 0; token < trace_.tokens(); ++token) total += accesses_of(token);
    if (total == 0)
      throw InputError(out.string(), "cannot be written: none of the layers runs for any token");
    scan_backwards(total);
    AtomicFile file(out);
    if (kind_ == CacheTraceKind::csv) write(file, "time,object,size,next_access\n");
    std::uint64_t done = 0;
    for (std::uint64_t block = 0; block < blocks_; ++block) {
      collect(block);
      done += accesses_.size();
      number_backwards(after_[block], done);
      write_block(file);
      if (progress) progress(block + 1, blocks_);
    }
    file.commit();
    return total;
  }

 private:
  std::uint64_t accesses_of(std::uint64_t token) const {
    std::uint64_t count = 0;
    for (std::uint32_t layer = first_layer_; layer < end_layer_; ++layer)
      count += trace_.experts_of(token, layer).front() != kNoExpert ? trace_.top_k() : 0;
    return count;
  }

  // The block's accesses in order, next accesses not known yet.
  void collect(std::uint64_t block) {
    accesses_.clear();
    const std::uint64_t end = std::min(trace_.tokens(), (block + 1) * block_);
    for (std::uint64_t token = block * block_; token < end; ++token) {
      for (std::uint32_t layer = first_layer_; layer < end_layer_; ++layer) {
        const auto ids = trace_.experts_of(token, layer);
        if (ids.front() == kNoExpert) continue;
        const std::size_t first = accesses_.size();
        for (const std::uint16_t id : ids)
          accesses_.push_back(
              {static_cast<std::uint32_t>(token), std::uint64_t{layer} * trace_.experts() + id, kNever});
        std::sort(accesses_.begin() + static_cast<std::ptrdiff_t>(first), accesses_.end(),
                  [](const Access& a, const Access& b) { return a.object < b.object; });
      }
    }
  }

  // `next`: of each object after the block; becomes that before it. `end`: 1-based number of the last access.
  void number_backwards(std::vector<std::int64_t>& next, std::uint64_t end) {
    for (std::size_t i = accesses_.size(); i-- > 0; --end) {
      std::int64_t& of_object = next[accesses_[i].object - base()];
      accesses_[i].next = of_object;
      of_object = static_cast<std::int64_t>(end);
    }
  }

  void scan_backwards(std::uint64_t total) {
    std::vector<std::int64_t> next(std::size_t{end_layer_ - first_layer_} * trace_.experts(), kNever);
    after_.resize(blocks_);
    for (std::uint64_t block = blocks_; block-- > 0;) {
      after_[block] = next;
      collect(block);
      number_backwards(next, total);
      total -= accesses_.size();
    }
  }

  std::uint64_t base() const { return std::uint64_t{first_layer_} * trace_.experts(); }

  static void write(AtomicFile& file, std::string_view text) { file.write(std::as_bytes(std::span(text))); }

  void write_block(AtomicFile& file) {
    text_.clear();
    for (const Access& access : accesses_) {
      if (kind_ == CacheTraceKind::csv) {
        text_ += std::to_string(access.token) + ',' + std::to_string(access.object) + ",1," +
                 std::to_string(access.next) + '\n';
      } else {
        constexpr std::uint32_t kSize = 1;
        append(access.token);
        append(access.object);
        append(kSize);
        append(access.next);
      }
    }
    write(file, text_);
  }

  template <typename T>
  void append(const T& value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  const RoutingTrace& trace_;
  CacheTraceKind kind_;
  std::uint32_t first_layer_, end_layer_;
  std::uint64_t block_ = 1, blocks_ = 0;  // tokens of a block; blocks
  std::vector<Access> accesses_;
  std::vector<std::vector<std::int64_t>> after_;  // by block: the next access to each object after it
  std::string text_;
};

}  // namespace

std::uint64_t export_cache_trace(const RoutingTrace& trace, CacheTraceKind kind,
                                 std::optional<std::uint32_t> layer, const std::filesystem::path& out,
                                 const Progress& progress) {
  if (layer && *layer >= trace.layers())
    throw InputError("--layer", "is " + std::to_string(*layer) + "; the trace has the layers 0 to " +
                                    std::to_string(trace.layers() - 1));
  if (trace.tokens() > std::numeric_limits<std::uint32_t>::max())
    throw InputError(out.string(),
                     "cannot be written: the format counts time in 32 bits, and there are more tokens");
  return Exporter(trace, kind, layer).run(out, progress);
}

}  // namespace moelab
