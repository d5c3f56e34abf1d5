#include <algorithm>
#include <filesystem>
#include <optional>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/domain_names.hpp"
#include "traces/import/json_values.hpp"
#include "traces/import/table_import.hpp"

namespace moelab {
namespace {

// What experts of so many dimensions stand for.
enum class LineHolds : std::size_t { expert = 0, layer = 1, token = 2, request = 3 };

class JsonlImport {
 public:
  JsonlImport(const std::filesystem::path& input, const RowNames& names, const Progress& progress)
      : lines_(input, progress), names_(names) {
    if (names.experts.size() != 1)
      throw InputError("--expert", "must name the one value that holds the experts");
    if (names.scores.size() > 1) throw InputError("--score", "must name one value at most");
    for (const std::string* name : {&names.request, &names.token, &names.layer, &names.rank, &names.phase,
                                    &names.prompt_tokens, &names.domain, &names.experts.front()}) {
      if (!name->empty()) wanted_.push_back(*name);
    }
    if (!names.scores.empty()) wanted_.push_back(names.scores.front());
  }

  DomainNames read_domains() {
    DomainNames domains;
    while (next()) {
      if (!domains.add(text_of(names_.domain))) fail(std::string(DomainNames::kTooMany));
    }
    return domains;
  }

  ImportCounts run(const ImportTarget& target, const DomainNames& domains) {
    if (!next()) throw InputError(lines_.name(), "has no lines");
    holds_ = LineHolds{value(names_.experts.front()).shape.size()};
    if (holds_ > LineHolds::request) fail("experts in more than three dimensions");
    if (!names_.rank.empty() && holds_ != LineHolds::expert)
      throw InputError("--rank", "belongs to the form with a line for each expert");
    TokenAssembler assembler(target, !names_.scores.empty(), domains.names(), holds_ == LineHolds::expert);
    try {
      do {
        add_line(assembler, domains);
      } while (next());
      assembler.finish();
    } catch (const RowError& error) {
      fail(error.what());
    }
    return {assembler.tokens(), assembler.prompt_tokens()};
  }

 private:
  bool next() {
    do {
      if (!lines_.next(line_)) return false;
    } while (line_.find_first_not_of(" \t") == std::string_view::npos);
    const auto wanted = [&](std::string_view path) {
      return std::find(wanted_.begin(), wanted_.end(), path) != wanted_.end();
    };
    values_ = read_json_values(line_, wanted, lines_.name(), lines_.number());
    return true;
  }

  [[noreturn]] void fail(const std::string& what) const { lines_.fail(0, what); }

  /// What the line has: "experts", "response.experts".
  std::vector<std::string> names_of_line() const {
    std::vector<std::string> names;
    const auto note = [&](std::string_view path) {
      names.emplace_back(path);
      return false;
    };
    read_json_values(line_, note, lines_.name(), lines_.number());
    return names;
  }

  const JsonValue& value(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) fail("has no " + shown(name) + suggestion(name, names_of_line()));
    return found->second;
  }

  std::uint64_t whole(const std::string& name) const {
    const JsonValue& v = value(name);
    if (v.is_text || !v.shape.empty() || !v.whole || v.integers.front() < 0)
      fail(shown(name) + " is not a whole number from 0");
    return static_cast<std::uint64_t>(v.integers.front());
  }

  std::string text_of(const std::string& name) const {
    const JsonValue& v = value(name);
    if (!v.is_text && (!v.shape.empty() || !v.whole))
      fail(shown(name) + " is neither a text nor a whole number");
    return v.is_text ? v.text : std::to_string(v.integers.front());
  }

  Phase read_phase() const {
    if (names_.phase.empty()) return names_.all_phases;
    const std::string text = text_of(names_.phase);
    const std::optional<Phase> phase = parse_phase(text);
    if (!phase) fail("expected prefill, decode or encoder, found " + shown(text));
    return *phase;
  }

  void read_numbers(std::size_t dimensions) {
    const JsonValue& ids = value(names_.experts.front());
    if (ids.is_text || !ids.whole || ids.shape.size() != dimensions)
      fail(shown(names_.experts.front()) + " is not whole numbers in " + std::to_string(dimensions) +
           " dimensions, as in the first line");
    if (names_.scores.empty()) return;
    const JsonValue& scores = value(names_.scores.front());
    if (scores.is_text || scores.shape != ids.shape)
      fail(shown(names_.scores.front()) + " does not have the shape of " + shown(names_.experts.front()));
    scores_.resize(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) scores_[i] = static_cast<float>(scores.number(i));
  }

  void add_line(TokenAssembler& assembler, const DomainNames& domains) {
    const auto dimensions = static_cast<std::size_t>(holds_);
    read_numbers(dimensions);
    const JsonValue& ids = value(names_.experts.front());
    if (holds_ == LineHolds::expert) check_rank();
    const std::string request = !names_.request.empty()        ? text_of(names_.request)
                                : holds_ == LineHolds::request ? std::to_string(lines_.number())
                                                               : std::string();
    const std::uint64_t tokens = holds_ == LineHolds::request ? ids.shape[0] : 1;
    const std::uint64_t layers = holds_ >= LineHolds::token ? ids.shape[dimensions - 2] : 1;
    const std::uint64_t width = holds_ >= LineHolds::layer ? ids.shape[dimensions - 1] : 1;
    if (tokens * layers * width == 0) fail(shown(names_.experts.front()) + " is empty");
    const std::uint64_t first = holds_ == LineHolds::request ? 0 : whole(names_.token);
    const std::uint64_t layer = holds_ >= LineHolds::token ? 0 : whole(names_.layer);
    const std::uint64_t prompt = names_.prompt_tokens.empty() ? 0 : whole(names_.prompt_tokens);
    if (prompt > tokens) fail("more prompt tokens than the " + std::to_string(tokens) + " tokens");
    LayerRow row;
    row.request = request;
    if (!names_.domain.empty()) row.domain = domains.number_of(text_of(names_.domain));
    const Phase phase = read_phase();
    for (std::uint64_t i = 0; i < tokens * layers; ++i) {
      row.token = first + i / layers;
      row.layer = layer + i % layers;
      row.phase = names_.prompt_tokens.empty() ? phase : i / layers < prompt ? Phase::prefill : Phase::decode;
      row.ids = std::span(ids.integers).subspan(i * width, width);
      if (!names_.scores.empty()) row.scores = std::span(scores_).subspan(i * width, width);
      assembler.add(row);
    }
  }

  void check_rank() {
    if (names_.rank.empty()) return;
    const std::string place = (names_.request.empty() ? "" : text_of(names_.request)) + '/' +
                              std::to_string(whole(names_.token)) + '/' + std::to_string(whole(names_.layer));
    next_rank_ = place == ranked_ ? next_rank_ + 1 : 0;
    ranked_ = place;
    if (whole(names_.rank) != next_rank_)
      fail("expected rank " + std::to_string(next_rank_) +
           "; the ranks of a token and layer stand in order, from 0");
  }

  LineReader lines_;
  std::string_view line_;  // until the next is read
  const RowNames& names_;
  std::vector<std::string> wanted_;
  JsonValues values_;
  LineHolds holds_ = LineHolds::expert;
  std::vector<float> scores_;
  std::string ranked_;
  std::uint64_t next_rank_ = 0;
};

}  // namespace

ImportCounts import_routing_jsonl(const std::filesystem::path& input, const RowNames& names,
                                  const ImportTarget& target, const Progress& progress) {
  DomainNames domains;
  if (!names.domain.empty()) domains = JsonlImport(input, names, progress).read_domains();
  return JsonlImport(input, names, progress).run(target, domains);
}

}  // namespace moelab
