#include "hw/bench/bench_work.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hw/codec/codec.hpp"
#include "hw/codec/fixed3.hpp"
#include "hw/codec/planes.hpp"
#include "hw/compute/matrix_product.hpp"

namespace moelab {

namespace {

std::span<const std::uint8_t> octets(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

std::span<std::uint16_t> bf16(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint16_t*>(bytes.data()), bytes.size() / 2};
}

/// Places of `size` within `bytes`, one after the other and round again.
class Round {
 public:
  Round(std::size_t size, std::size_t bytes, std::size_t first = 0)
      : count_(bytes / size), size_(size), index_(first % count_) {}
  std::size_t offset() const { return index_ * size_; }
  void next() { index_ = (index_ + 1) % count_; }

 private:
  std::size_t count_, size_, index_;
};

class Decompress final : public BenchOperation {
 public:
  Decompress(const BenchShards& shards, std::span<const std::byte> of, std::span<std::byte> to)
      : codec_(find_codec(shards.codec)),
        shards_(shards),
        of_(of),
        to_(shards.bytes, to.size()),
        memory_(to) {}

  void run() override {
    to_.next();
    shard_ = (shard_ + 1) % shards_.stored.size();
    codec_->decode(shards_.stored[shard_], memory_.subspan(to_.offset(), shards_.bytes));
  }
  bool right() const override {
    return std::ranges::equal(memory_.subspan(to_.offset(), shards_.bytes),
                              of_.subspan(shard_ * shards_.bytes, shards_.bytes));
  }

 private:
  std::unique_ptr<Codec> codec_;
  const BenchShards& shards_;
  std::span<const std::byte> of_;
  std::size_t shard_ = 0;
  Round to_;
  std::span<std::byte> memory_;
};

class Join final : public BenchOperation {
 public:
  Join(const BenchTensor& tensor, std::size_t elements, std::span<std::byte> to)
      : tensor_(tensor),
        elements_(elements),
        from_(elements, tensor.exponents.size()),
        to_(2 * elements, to.size()),
        memory_(to) {}

  void run() override {
    from_.next();
    to_.next();
    join_planes(tensor_.exponents.bytes().subspan(from_.offset(), elements_),
                tensor_.sign_mantissas.bytes().subspan(from_.offset(), elements_),
                bf16(memory_.subspan(to_.offset(), 2 * elements_)));
  }
  bool right() const override {
    return std::ranges::equal(memory_.subspan(to_.offset(), 2 * elements_),
                              tensor_.weights.bytes().subspan(2 * from_.offset(), 2 * elements_));
  }

 private:
  const BenchTensor& tensor_;
  std::size_t elements_;
  Round from_, to_;
  std::span<std::byte> memory_;
};

class Recover final : public BenchOperation {
 public:
  Recover(const BenchShards& shards, const BenchTensor& tensor, std::span<std::byte> to)
      : shards_(shards), tensor_(tensor), to_(2 * shards.bytes, to.size()), memory_(to) {}

  void run() override {
    to_.next();
    shard_ = (shard_ + 1) % shards_.stored.size();
    fixed3_decode_join(shards_.stored[shard_],
                       octets(tensor_.sign_mantissas.bytes().subspan(shard_ * shards_.bytes, shards_.bytes)),
                       bf16(memory_.subspan(to_.offset(), 2 * shards_.bytes)));
  }
  bool right() const override {
    return std::ranges::equal(memory_.subspan(to_.offset(), 2 * shards_.bytes),
                              tensor_.weights.bytes().subspan(2 * shard_ * shards_.bytes, 2 * shards_.bytes));
  }

 private:
  const BenchShards& shards_;
  const BenchTensor& tensor_;
  std::size_t shard_ = 0;
  Round to_;
  std::span<std::byte> memory_;
};

class Copy final : public BenchOperation {
 public:
  Copy(const AlignedMemory& from, std::size_t bytes, std::span<std::byte> to)
      : from_(bytes, from.size()), to_(bytes, to.size()), bytes_(bytes), source_(from), memory_(to) {}

  void run() override {
    from_.next();
    to_.next();
    std::memcpy(&memory_[to_.offset()], &source_.bytes()[from_.offset()], bytes_);
  }
  bool right() const override {
    return std::memcmp(&memory_[to_.offset()], &source_.bytes()[from_.offset()], bytes_) == 0;
  }

 private:
  Round from_, to_;
  std::size_t bytes_;
  const AlignedMemory& source_;
  std::span<std::byte> memory_;
};

/// Weights are 1 and inputs 1 / hidden: gate and up are 1 wherever, and down adds up as many as the width.
class Expert final : public BenchOperation {
 public:
  Expert(const AlignedMemory& ones, const ExpertShape& shape, std::size_t tokens, std::size_t first)
      : ffn_(shape),
        tokens_(tokens),
        ones_(ones),
        from_(2 * shape.weights(), ones.size(), first),
        in_(tokens * shape.hidden, 1.0F / static_cast<float>(shape.hidden)),
        out_(in_.size()) {}

  void run() override {
    from_.next();
    const auto weights = ones_.as<std::uint16_t>().subspan(from_.offset() / 2, ffn_.shape().weights());
    ffn_.run(ffn_.tensors_in(weights), in_, tokens_, out_);
  }
  bool right() const override {
    const double each = ffn_.shape().matrices == 3 ? 1 / (1 + std::exp(-1.0)) : 1;
    const double due = each * static_cast<double>(ffn_.shape().width);
    return std::ranges::all_of(
        out_, [&](float value) { return std::abs(static_cast<double>(value) - due) <= 1e-4 * due; });
  }

 private:
  ExpertFfn ffn_;
  std::size_t tokens_;
  const AlignedMemory& ones_;
  Round from_;
  std::vector<float> in_, out_;
};

}  // namespace

std::unique_ptr<BenchOperation> decompress_operation(const BenchShards& shards, std::span<const std::byte> of,
                                                     std::span<std::byte> to) {
  return std::make_unique<Decompress>(shards, of, to);
}

std::unique_ptr<BenchOperation> join_operation(const BenchTensor& tensor, std::size_t elements,
                                               std::span<std::byte> to) {
  return std::make_unique<Join>(tensor, elements, to);
}

std::unique_ptr<BenchOperation> recover_operation(const BenchShards& shards, const BenchTensor& tensor,
                                                  std::span<std::byte> to) {
  return std::make_unique<Recover>(shards, tensor, to);
}

std::unique_ptr<BenchOperation> copy_operation(const AlignedMemory& from, std::size_t bytes,
                                               std::span<std::byte> to) {
  return std::make_unique<Copy>(from, bytes, to);
}

std::unique_ptr<BenchOperation> expert_operation(const AlignedMemory& ones, const ExpertShape& shape,
                                                 std::size_t tokens, std::size_t first) {
  return std::make_unique<Expert>(ones, shape, tokens, first);
}

std::vector<BenchWork> works_of(const BenchOperations& operations) {
  std::vector<BenchWork> works;
  for (const auto& operation : operations) works.push_back([one = operation.get()] { one->run(); });
  return works;
}

std::string check_operations(const BenchOperations& operations) {
  for (const auto& operation : operations) {
    operation->run();
    if (!operation->right()) return "not what was put in";
  }
  return {};
}

}  // namespace moelab
