#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/domain_names.hpp"
#include "traces/import/table_import.hpp"

namespace moelab {
namespace {

constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);
constexpr std::string_view kListSeparators = " ,;|\t\n";

struct Columns {
  Columns(const CsvReader& csv, const RowNames& names)
      : request(place(csv, names.request)),
        token(place(csv, names.token)),
        layer(place(csv, names.layer)),
        rank(place(csv, names.rank)),
        phase(place(csv, names.phase)),
        domain(place(csv, names.domain)) {
    if (token == kNoColumn) throw InputError("--token", "must name the column of the token's number");
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
      : csv_(input, progress, delimiter), columns_(csv_, names), all_phases_(names.all_phases) {}

  ImportCounts run(const ImportTarget& target, const DomainNames& domains) {
    if (!csv_.next()) throw InputError(csv_.name(), "has no rows after its header");
    long_form_ = columns_.experts.size() == 1 && parse_signed(csv_.field(columns_.experts.front()));
    if (columns_.rank != kNoColumn && !long_form_)
      throw InputError("--rank", "belongs to the form with a row for each expert; " + csv_.name() +
                                     " has lists of experts");
    TokenAssembler assembler(target, !columns_.scores.empty(), domains.names(), long_form_);
    try {
      do {
        read_row(domains);
        check_rank();
        assembler.add(row_);
      } while (csv_.next());
      assembler.finish();
    } catch (const RowError& error) {
      csv_.fail(columns_.of(error.field), error.what());
    }
    return {assembler.tokens()};
  }

 private:
  void read_row(const DomainNames& domains) {
    row_.request = columns_.request == kNoColumn ? std::string_view() : csv_.field(columns_.request);
    row_.token = csv_.unsigned_at(columns_.token, "a token's number, from 0");
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
