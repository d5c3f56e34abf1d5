#include "traces/import/sglang_import.hpp"

#include <algorithm>
#include <limits>

#include "models/input_error.hpp"
#include "traces/import/counts_import.hpp"
#include "traces/import/torch_file.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kExtend = 1, kDecode = 2;  // ForwardMode of SGLang

class Recording {
 public:
  Recording(const std::filesystem::path& input, ImportTarget target, bool pass_is_request)
      : file_(input),
        pickle_(file_.pickle()),
        target_(std::move(target)),
        pass_is_request_(pass_is_request) {}

  SglangImported run() {
    if (const Pickle::Node* counts = pickle_.find(pickle_.root(), "logical_count")) {
      const TorchNumbers numbers = file_.numbers(*counts, "logical_count");
      return finish_counts(
          counts_from_numbers(file_.name(), "logical_count", numbers.values, numbers.shape, {}));
    }
    const Pickle::Node* records = pickle_.find(pickle_.root(), "records");
    if (records == nullptr || pickle_.kind(*records) != Pickle::Kind::list || pickle_.items(*records).empty())
      throw InputError(file_.name(), "holds neither 'logical_count' nor 'records' of SGLang's recorder");
    if (const Pickle::Node* map = pickle_.find(pickle_.root(), "last_physical_to_logical_map"))
      map_ = file_.numbers(*map, "last_physical_to_logical_map");
    const std::vector<Pickle::Node>& all = pickle_.items(*records);
    if (pickle_.find(all.front(), "topk_ids_of_layer") == nullptr) return run_passes(all);
    return run_tokens(all);
  }

 private:
  [[noreturn]] void fail(std::size_t record, const std::string& what) const {
    throw InputError(file_.name(), "record " + std::to_string(record) + ": " + what);
  }

  SglangImported finish_counts(const CountsTable& table) const {
    write_counts(table, target_);
    return {true, table.prompts};
  }

  SglangImported run_passes(const std::vector<Pickle::Node>& records) const {
    TorchNumbers all;
    for (std::size_t i = 0; i < records.size(); ++i) {
      const Pickle::Node* counts = pickle_.find(records[i], "global_physical_count");
      if (counts == nullptr) fail(i, "has no 'global_physical_count'");
      const TorchNumbers pass = file_.numbers(*counts, "global_physical_count");
      if (pass.shape.size() != 2 ||
          (i > 0 && !std::equal(pass.shape.begin(), pass.shape.end(), all.shape.begin() + 1)))
        fail(i, "its counts do not have the shape [layers, physical experts] of the records before");
      if (i == 0) all.shape = {records.size(), pass.shape[0], pass.shape[1]};
      all.values.insert(all.values.end(), pass.values.begin(), pass.values.end());
    }
    return finish_counts(
        counts_from_numbers(file_.name(), "global_physical_count", all.values, all.shape, map_.values));
  }

  std::vector<std::int64_t> integers(std::size_t number, Pickle::Node record, std::string_view key) const {
    const Pickle::Node* list = pickle_.find(record, key);
    if (list == nullptr || pickle_.kind(*list) != Pickle::Kind::list)
      fail(number, "has no list '" + std::string(key) + "'");
    std::vector<std::int64_t> values;
    for (const Pickle::Node item : pickle_.items(*list)) {
      if (pickle_.kind(item) != Pickle::Kind::integer)
        fail(number, "'" + std::string(key) + "' has an item that is no whole number");
      values.push_back(pickle_.integer(item));
    }
    return values;
  }

  SglangImported run_tokens(const std::vector<Pickle::Node>& records) {
    if (target_.experts == 0) {
      if (map_.values.empty())
        throw InputError("--experts", "must be given: the recording has no map of experts");
      const std::int64_t highest = *std::max_element(map_.values.begin(), map_.values.end());
      if (highest < 0 || highest >= kNoExpert)
        throw InputError(file_.name(), "the map of experts has a number out of range");
      target_.experts = static_cast<std::uint32_t>(highest + 1);
    }
    TokenAssembler assembler(target_, false, {}, false);
    for (std::size_t i = 0; i < records.size(); ++i) {
      try {
        add_pass(assembler, records[i], i);
      } catch (const RowError& error) {
        fail(i, error.what());
      }
    }
    try {
      assembler.finish();
    } catch (const RowError& error) {
      throw InputError(file_.name(), error.what());
    }
    return {false, assembler.tokens()};
  }

  void add_pass(TokenAssembler& assembler, Pickle::Node record, std::size_t number) {
    const Pickle::Node* mode_node = pickle_.find(record, "forward_mode");
    const std::int64_t mode = mode_node != nullptr && pickle_.kind(*mode_node) == Pickle::Kind::integer
                                  ? pickle_.integer(*mode_node)
                                  : 0;
    if (mode != kExtend && mode != kDecode)
      fail(number, "forward_mode is " + std::to_string(mode) + "; expected 1 (extend) or 2 (decode)");
    const Pickle::Node* ids_node = pickle_.find(record, "topk_ids_of_layer");
    if (ids_node == nullptr) fail(number, "has no 'topk_ids_of_layer'");
    const TorchNumbers ids = file_.numbers(*ids_node, "topk_ids_of_layer");
    const std::vector<std::int64_t> positions = integers(number, record, "positions");
    if (ids.shape.size() != 3 || ids.shape[1] != positions.size())
      fail(number, "topk_ids_of_layer is not [layers, " + std::to_string(positions.size()) + " tokens, k]");
    if (positions.empty()) return;
    for (const std::int64_t position : positions) {
      if (position < 0 || position == std::numeric_limits<std::int64_t>::max())
        fail(number, "'positions' has " + std::to_string(position) + ", which is no position");
    }
    const std::size_t sequences =
        mode == kDecode ? positions.size() : integers(number, record, "extend_seq_lens").size();
    if (sequences != 1 && !pass_is_request_)
      fail(number, "a batch of " + std::to_string(sequences) +
                       " sequences, and the recording does not say whose they are; --pass-is-request makes a "
                       "request of each pass, or record with --max-running-requests 1");
    if (first_ids_) learn_layers(ids, number);
    // A prompt may come in several passes, one behind the other; a prompt after decoding is a new request.
    const bool follows =
        any_ && positions.front() == next_position_ && (mode == kDecode || last_mode_ == kExtend);
    if (pass_is_request_ || !follows) {
      if (any_ && !pass_is_request_ && mode == kDecode)
        fail(number, "decodes position " + std::to_string(positions.front()) + " after position " +
                         std::to_string(next_position_ - 1));
      ++request_;
      token_ = 0;
    }
    for (std::size_t i = 1; i < positions.size() && !pass_is_request_; ++i) {
      if (positions[i] != positions[i - 1] + 1)
        fail(number, "the positions of its prompt do not count up by one");
    }
    any_ = true;
    last_mode_ = mode;
    next_position_ = positions.back() + 1;
    add_tokens(assembler, ids, mode, number);
  }

  // Layers without experts are -1 throughout, and so are places past k: the first pass shows which.
  void learn_layers(const TorchNumbers& ids, std::size_t number) {
    first_ids_ = false;
    width_ = ids.shape[2];
    for (std::uint64_t layer = 0; layer < ids.shape[0]; ++layer) {
      const auto begin = ids.values.begin() + static_cast<std::ptrdiff_t>(layer * ids.shape[1] * width_);
      const auto used = static_cast<std::uint64_t>(
          std::find(begin, begin + static_cast<std::ptrdiff_t>(width_), -1) - begin);
      if (used == 0) continue;
      if (top_k_ != 0 && used != top_k_) fail(number, "layers have different numbers of experts a token");
      top_k_ = used;
      layers_.push_back(layer);
    }
    if (layers_.empty()) fail(number, "no layer has experts");
  }

  void add_tokens(TokenAssembler& assembler, const TorchNumbers& ids, std::int64_t mode, std::size_t number) {
    const bool mapped = !map_.values.empty();
    if (ids.shape[2] != width_ || layers_.back() >= ids.shape[0] ||
        (mapped && (map_.shape.size() != 2 || map_.shape[0] != ids.shape[0])))
      fail(number, "differs from the first record, or from the map of experts, in its shape");
    const std::string request = std::to_string(request_);
    std::vector<std::int64_t> row_ids(top_k_);
    LayerRow row;
    row.request = request;
    row.phase = mode == kDecode ? Phase::decode : Phase::prefill;
    for (std::uint64_t token = 0; token < ids.shape[1]; ++token, ++token_) {
      row.token = token_;
      for (std::uint64_t layer = 0; layer < ids.shape[0]; ++layer) {
        const auto from =
            ids.values.begin() + static_cast<std::ptrdiff_t>((layer * ids.shape[1] + token) * width_);
        const bool has_experts = std::binary_search(layers_.begin(), layers_.end(), layer);
        const auto past = from + static_cast<std::ptrdiff_t>(has_experts ? top_k_ : 0);
        if (std::any_of(past, from + static_cast<std::ptrdiff_t>(width_),
                        [](std::int64_t id) { return id != -1; }))
          fail(number, "layer " + std::to_string(layer) + " has more experts than in the first record");
        if (!has_experts) continue;
        for (std::uint64_t i = 0; i < top_k_; ++i) {
          const std::int64_t id = from[static_cast<std::ptrdiff_t>(i)];
          if (mapped && (id < 0 || static_cast<std::uint64_t>(id) >= map_.shape[1]))
            fail(number, "physical expert " + std::to_string(id) + " is not in the map of experts");
          row_ids[i] = mapped ? map_.values[layer * map_.shape[1] + static_cast<std::uint64_t>(id)] : id;
        }
        row.layer = layer;
        row.ids = row_ids;
        assembler.add(row);
      }
    }
  }

  TorchFile file_;
  const Pickle& pickle_;
  ImportTarget target_;
  bool pass_is_request_;
  TorchNumbers map_;
  bool first_ids_ = true, any_ = false;
  std::vector<std::uint64_t> layers_;  // of the input, that have experts
  std::uint64_t width_ = 0, top_k_ = 0, request_ = 0, token_ = 0;
  std::int64_t last_mode_ = 0, next_position_ = 0;
};

}  // namespace

SglangImported import_sglang(const std::filesystem::path& input, const ImportTarget& target,
                             bool pass_is_request) {
  return Recording(input, target, pass_is_request).run();
}

}  // namespace moelab
