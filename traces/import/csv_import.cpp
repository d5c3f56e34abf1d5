#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/domain_names.hpp"
#include "traces/import/table_import.hpp"

namespace moelab {
namespace {

constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);
constexpr std::size_t kMostKeptBytes = std::size_t{16} << 30;
constexpr std::string_view kListSeparators = " ,;|\t\n";

struct Columns {
  Columns(const CsvReader& csv, const RowNames& names)
      : request(place(csv, names.request)),
        token(place(csv, names.token)),
        layer(place(csv, names.layer)),
        rank(place(csv, names.rank)),
        phase(place(csv, names.phase)),
        domain(place(csv, names.domain)) {
    if (layer == kNoColumn) throw InputError("--layer", "must name the column of the layer's number");
    if (names.experts.empty()) throw InputError("--expert", "must name the column of the expert's number");
    for (const std::string& name : names.experts) experts.push_back(csv.column(name));
    for (const std::string& name : names.scores) scores.push_back(csv.column(name));
    if (!scores.empty() && scores.size() != experts.size())
      throw InputError("--score", "names " + std::to_string(scores.size()) + " columns for " +
                                      std::to_string(experts.size()) + " of experts");
  }
  static std::size_t place(const CsvReader& csv, const std::string& name) {
    return name.empty() ? kNoColumn : csv.column(name);
  }
  std::size_t of(RowField field) const {
    switch (field) {
      case RowField::request:
        return request;
      case RowField::token:
        return token;
      case RowField::layer:
        return layer;
      case RowField::expert:
        return experts.front();
      case RowField::score:
        return scores.empty() ? experts.front() : scores.front();
      case RowField::phase:
        return phase;
    }
    return kNoColumn;
  }

  std::size_t request, token, layer, rank, phase, domain;
  std::vector<std::size_t> experts, scores;
};

// Calls `element` with each item of "1 2", "1,2", "[1, 2]", ...
template <typename Element>
void for_each_item(std::string_view list, Element element) {
  if (list.starts_with('[') && list.ends_with(']')) list = list.substr(1, list.size() - 2);
  while (true) {
    const std::size_t begin = list.find_first_not_of(kListSeparators);
    if (begin == std::string_view::npos) return;
    list.remove_prefix(begin);
    const std::size_t end = std::min(list.find_first_of(kListSeparators), list.size());
    element(list.substr(0, end));
    list.remove_prefix(end);
  }
}

class CsvImport {
 public:
  CsvImport(const std::filesystem::path& input, const RowNames& names, char delimiter,
            const Progress& progress)
      : csv_(input, progress, delimiter),
        columns_(csv_, names),
        all_phases_(names.all_phases),
        any_order_(names.any_order) {}

  ImportCounts run(const ImportTarget& target, const DomainNames& domains) {
    if (!csv_.next()) throw InputError(csv_.name(), "has no rows after its header");
    top_k_ = target.top_k;
    long_form_ = columns_.experts.size() == 1 && parse_signed(csv_.field(columns_.experts.front()));
    if (columns_.rank != kNoColumn && !long_form_)
      throw InputError("--rank", "belongs to the form with a row for each expert; " + csv_.name() +
                                     " has lists of experts");
    TokenAssembler assembler(target, !columns_.scores.empty(), domains.names(), long_form_);
    any_order_ ? import_sorted(assembler, domains) : import_in_order(assembler, domains);
    return {assembler.tokens(), assembler.prompt_tokens()};
  }

 private:
  /// A row that waits for its place.
  struct Kept {
    std::uint64_t token = 0, layer = 0, rank = 0, line = 0;
    std::size_t ids = 0;  // the first of its experts in kept_ids_; so of the scores
    std::uint32_t request = 0, experts = 0;
    std::uint16_t domain = 0;
    Phase phase = Phase::decode;
    auto place() const { return std::tie(request, token, layer, rank); }
  };

  void import_in_order(TokenAssembler& assembler, const DomainNames& domains) {
    try {
      do {
        read_row(domains);
        if (columns_.token == kNoColumn) count_token();
        check_rank();
        assembler.add(row_);
        remember_order();
      } while (csv_.next());
      assembler.finish();
    } catch (const RowError& error) {
      csv_.fail(columns_.of(error.field), error.what() + order_hint(error.field));
    }
  }

  /// A new token begins where the layers begin again; of one layer alone, with each row or --top-k rows.
  void count_token() {
    const bool same = counted_any_ && row_.request == counted_request_;
    const bool full = !long_form_ || counted_rows_ == top_k_;
    if (!same) {
      counted_token_ = 0;
    } else if (row_.layer < counted_layer_ || (row_.layer == counted_layer_ && full)) {
      ++counted_token_;
    }
    const bool goes_on = same && row_.layer == counted_layer_ && !full;
    counted_rows_ = goes_on ? counted_rows_ + 1 : 1;
    if (!same) counted_request_ = row_.request;
    counted_layer_ = row_.layer;
    counted_any_ = true;
    row_.token = counted_token_;
  }

  void remember_order() {
    single_layer_tokens_ = single_layer_tokens_ && row_.layer == (last_row_ ? last_layer_ : row_.layer);
    last_token_ = row_.token;
    last_layer_ = row_.layer;
    last_row_ = true;
  }

  /// What reads a file whose rows go layer by layer, where that is what went wrong.
  std::string order_hint(RowField field) const {
    const bool back =
        columns_.token != kNoColumn && last_row_ && row_.layer != last_layer_ && row_.token < last_token_;
    const bool layers_apart =
        columns_.token == kNoColumn && field == RowField::layer && single_layer_tokens_ && last_token_ > 0;
    if (!back && !layers_apart) return {};
    return "; the rows go layer by layer: layer " + std::to_string(row_.layer) +
           " begins again after all tokens of layer " + std::to_string(last_layer_) +
           ". --any-order reads them";
  }

  /// All rows, then one token after the other.
  void import_sorted(TokenAssembler& assembler, const DomainNames& domains) {
    do {
      read_row(domains);
      keep_row();
    } while (csv_.next());
    std::stable_sort(kept_.begin(), kept_.end(),
                     [](const Kept& a, const Kept& b) { return a.place() < b.place(); });
    std::uint64_t line = 0;
    try {
      for (const Kept& kept : kept_) {
        line = kept.line;
        row_ = {.request = request_names_[kept.request],
                .token = kept.token,
                .layer = kept.layer,
                .phase = kept.phase,
                .domain = kept.domain,
                .ids = std::span(kept_ids_).subspan(kept.ids, kept.experts),
                .scores = kept_scores_.empty() ? std::span<const float>()
                                               : std::span(kept_scores_).subspan(kept.ids, kept.experts),
                .router_scores = {}};
        assembler.add(row_);
      }
      assembler.finish();
    } catch (const RowError& error) {
      throw InputError(std::vector{Problem{csv_.name(), static_cast<int>(line), 0, error.what()}});
    }
  }

  void keep_row() {
    if ((kept_.size() + 1) * sizeof(Kept) + kept_ids_.size() * (sizeof(std::int64_t) + sizeof(float)) >
        kMostKeptBytes)
      csv_.fail(columns_.layer,
                "more rows than --any-order holds in memory (16 GiB); sort them by request, token and "
                "layer, or import parts and put them together (moelab trace merge)");
    const auto [request, is_new] =
        request_numbers_.emplace(row_.request, static_cast<std::uint32_t>(request_names_.size()));
    if (is_new) request_names_.emplace_back(row_.request);
    Kept kept{.token = row_.token, .layer = row_.layer, .line = csv_.line(), .ids = kept_ids_.size()};
    kept.request = request->second;
    kept.experts = static_cast<std::uint32_t>(ids_.size());
    kept.domain = row_.domain;
    kept.phase = row_.phase;
    if (columns_.rank != kNoColumn) kept.rank = csv_.unsigned_at(columns_.rank, "a rank, from 0");
    if (columns_.token == kNoColumn) {
      if (long_form_ && top_k_ == 0)
        throw InputError("--top-k",
                         "must be given: in rows of one expert each, without numbers of tokens, nothing else "
                         "says where a token ends");
      const std::uint64_t row = rows_of_layer_[{kept.request, kept.layer}]++;
      kept.token = long_form_ ? row / top_k_ : row;
    }
    if (scores_.size() != (columns_.scores.empty() ? 0 : ids_.size()))
      csv_.fail(columns_.of(RowField::score),
                std::to_string(scores_.size()) + " scores for " + std::to_string(ids_.size()) + " experts");
    kept_ids_.insert(kept_ids_.end(), ids_.begin(), ids_.end());
    kept_scores_.insert(kept_scores_.end(), scores_.begin(), scores_.end());
    kept_.push_back(kept);
  }

  std::uint64_t token_number() const {
    const std::optional<std::uint64_t> number = parse_unsigned(csv_.field(columns_.token));
    if (!number)
      csv_.fail(columns_.token,
                "expected a token's number, from 0, found " + shown(csv_.field(columns_.token)) +
                    ". Where the column is the tokens' text, leave --token out: tokens are then counted, a "
                    "new one where the layers begin again");
    return *number;
  }

  void read_row(const DomainNames& domains) {
    row_.request = columns_.request == kNoColumn ? std::string_view() : csv_.field(columns_.request);
    row_.token = columns_.token == kNoColumn ? 0 : token_number();
    row_.layer = csv_.unsigned_at(columns_.layer, "a layer's number, from 0");
    row_.phase = all_phases_;
    if (columns_.phase != kNoColumn) {
      const std::optional<Phase> phase = parse_phase(csv_.field(columns_.phase));
      if (!phase)
        csv_.fail(columns_.phase,
                  "expected prefill, decode or encoder, found " + shown(csv_.field(columns_.phase)));
      row_.phase = *phase;
    }
    if (columns_.domain != kNoColumn) row_.domain = domains.number_of(csv_.field(columns_.domain));
    ids_.clear();
    scores_.clear();
    for (const std::size_t column : columns_.experts) read_ids(column);
    for (const std::size_t column : columns_.scores) read_scores(column);
    row_.ids = ids_;
    row_.scores = scores_;
  }

  void read_ids(std::size_t column) {
    const auto add = [&](std::string_view item) {
      const std::optional<std::int64_t> id = parse_signed(item);
      if (!id) csv_.fail(column, "expected an expert's number, found " + shown(item));
      ids_.push_back(*id);
    };
    if (is_list()) {
      for_each_item(csv_.field(column), add);
    } else {
      add(csv_.field(column));
    }
  }

  void read_scores(std::size_t column) {
    const auto add = [&](std::string_view item) {
      const std::optional<double> score = parse_number(item);
      if (!score) csv_.fail(column, "expected a finite score, found " + shown(item));
      scores_.push_back(static_cast<float>(*score));
    };
    if (is_list()) {
      for_each_item(csv_.field(column), add);
    } else {
      add(csv_.field(column));
    }
  }

  bool is_list() const { return !long_form_ && columns_.experts.size() == 1; }

  // Ranks say nothing that the order of the rows does not say already; they must agree with it.
  void check_rank() {
    if (columns_.rank == kNoColumn) return;
    const bool same =
        row_.token == ranked_token_ && row_.layer == ranked_layer_ && row_.request == ranked_request_;
    next_rank_ = same ? next_rank_ + 1 : 0;
    if (csv_.unsigned_at(columns_.rank, "a rank, from 0") != next_rank_)
      csv_.fail(columns_.rank, "expected rank " + std::to_string(next_rank_) +
                                   "; the ranks of a token and layer stand in order, from 0");
    ranked_token_ = row_.token;
    ranked_layer_ = row_.layer;
    if (!same) ranked_request_ = row_.request;
  }

  CsvReader csv_;
  Columns columns_;
  Phase all_phases_;
  bool long_form_ = false;
  LayerRow row_;
  std::vector<std::int64_t> ids_;
  std::vector<float> scores_;
  std::string ranked_request_;
  std::uint64_t ranked_token_ = static_cast<std::uint64_t>(-1), ranked_layer_ = 0, next_rank_ = 0;

  bool any_order_;
  std::uint32_t top_k_ = 0;
  std::string counted_request_;
  bool counted_any_ = false;
  std::uint64_t counted_token_ = 0, counted_layer_ = 0, counted_rows_ = 0;
  bool last_row_ = false, single_layer_tokens_ = true;
  std::uint64_t last_token_ = 0, last_layer_ = 0;
  std::vector<Kept> kept_;
  std::vector<std::int64_t> kept_ids_;
  std::vector<float> kept_scores_;
  std::map<std::string, std::uint32_t, std::less<>> request_numbers_;
  std::vector<std::string> request_names_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> rows_of_layer_;
};

}  // namespace

ImportCounts import_routing_csv(const std::filesystem::path& input, const RowNames& names,
                                const ImportTarget& target, char delimiter, const Progress& progress) {
  DomainNames domains;
  if (!names.domain.empty()) {
    CsvReader csv(input, progress, delimiter);
    const std::size_t column = csv.column(names.domain);
    while (csv.next()) {
      if (!domains.add(csv.field(column))) csv.fail(column, std::string(DomainNames::kTooMany));
    }
  }
  return CsvImport(input, names, delimiter, progress).run(target, domains);
}

}  // namespace moelab
