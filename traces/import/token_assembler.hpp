// Turns rows of (request, token, layer) in any of the imported forms into the tokens of a routing trace, and
// refuses what does not add up. Private to the importers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "traces/routing_trace_writer.hpp"

namespace moelab {

/// What the user says of the trace that is made.
struct ImportTarget {
  std::filesystem::path out;
  std::string model;       // identity of the model
  std::string provenance;  // how the trace came to be
  bool synthetic = false;
  std::uint32_t experts = 0;  // routed experts a layer; must be given: a trace may not use them all
  std::uint32_t layers = 0;   // 0: as many as the first token has
  std::uint32_t top_k = 0;    // 0: as many as the first token has
  RouterScores router_scores = RouterScores::none;  // what LayerRow::router_scores are
  std::vector<std::uint64_t> skip_layers;           // layers of the input to leave out (dense ones)
};

/// Which value of a row a RowError is about.
enum class RowField { request, token, layer, expert, score, phase };

/// What is wrong with a row; the reader of the input adds the place.
struct RowError : std::runtime_error {
  RowError(RowField at, const std::string& what) : std::runtime_error(what), field(at) {}
  RowField field;
};

/// A token's experts at one layer, or, in the long form, one of them.
struct LayerRow {
  std::string_view request;  // rows of a request stand together
  std::uint64_t token = 0;   // counts up by one within a request
  std::uint64_t layer = 0;   // number of the layer in the input
  Phase phase = Phase::decode;
  std::uint16_t domain = 0;
  std::span<const std::int64_t> ids;     // by falling score; all -1 or all 65535: the layer does not run
  std::span<const float> scores;         // as many, or none
  std::span<const float> router_scores;  // one for each expert, where the target says what they are
};

/// Memory holds one token and the names of the requests seen.
class TokenAssembler {
 public:
  /// `domains`: names that LayerRow::domain counts into; empty: requests have none. In the long form rows of
  /// one layer add to each other; otherwise a second row of a layer is an error.
  TokenAssembler(ImportTarget target, bool scores, std::vector<std::string> domains, bool long_form);
  ~TokenAssembler();

  /// The token's first row says which layers and how many experts there are, unless the target does.
  /// Throws RowError: an unknown, missing or second layer, a wrong number of experts, an expert out of range
  /// or twice, a score that is not finite, a token that is not the one after, a request that comes back, a
  /// phase or domain that differs within a token or falls.
  void add(const LayerRow& row);
  /// Ends the last token and writes the trace. RowError as add(), InputError where it cannot be written.
  void finish();
  std::uint64_t tokens() const { return tokens_; }
  /// Of those, of phases prefill and encoder.
  std::uint64_t prompt_tokens() const { return prompt_tokens_; }

 private:
  struct Slot {
    std::uint64_t layer = 0;
    std::vector<std::uint16_t> ids;
    std::vector<float> scores;
    std::vector<float> router_scores;
  };

  Slot& slot_of(std::uint64_t layer);
  void check_ids(const LayerRow& row, const Slot& slot);
  void check_scores(const LayerRow& row, bool none) const;
  void check_distinct(const Slot& slot);
  void begin_token(const LayerRow& row);
  void begin_request(const LayerRow& row);
  void end_token();
  void open();
  std::string token_name() const;

  ImportTarget target_;
  bool scores_;
  bool long_form_;
  std::vector<std::string> domains_;
  std::unique_ptr<RoutingTraceWriter> writer_;  // once the first token is whole
  std::vector<Slot> slots_;                     // by layer; the first token's in order of appearance
  std::size_t next_slot_ = 0;                   // where the next row's layer most likely is
  std::unordered_map<std::uint64_t, std::size_t> places_;  // of the layers in slots_
  std::vector<std::uint16_t> row_ids_;
  std::vector<float> row_scores_;
  std::vector<float> row_router_scores_;
  std::vector<std::uint32_t> seen_;  // [experts]: number of the check that met the expert last
  std::uint32_t row_number_ = 0;

  bool any_ = false;  // a token is begun
  std::string request_;
  std::unordered_set<std::string> requests_;
  std::uint64_t token_ = 0;
  Phase phase_ = Phase::decode;
  std::uint16_t domain_ = 0;
  bool new_request_ = false;  // the token is its request's first
  std::uint64_t tokens_ = 0, prompt_tokens_ = 0;
};

/// 'prefill', 'decode', 'encoder', or their numbers in a trace, 1, 2, 0. nullopt for anything else.
std::optional<Phase> parse_phase(std::string_view text);

}  // namespace moelab
