#include "traces/import/array_import.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"
#include "traces/import/domain_names.hpp"
#include "traces/import/zip_archive.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kMostNumbersOfToken = std::uint64_t{1} << 26;

struct Request {
  std::uint64_t tokens = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint16_t domain = 0;
  std::optional<std::int64_t> ids_offset, scores_offset;  // bytes
};

struct Requests {
  std::vector<Request> all;
  DomainNames domains;
  std::uint64_t tokens = 0;
  bool prompts = false;  // prompt_tokens says which rows are prefill
};

Requests read_index(const RequestIndex& index) {
  CsvReader csv(index.file);
  if (index.tokens.empty())
    throw InputError("--index-tokens", "must name the column with each request's rows");
  const std::size_t tokens = csv.column(index.tokens);
  const auto optional_column = [&](const std::string& name) {
    return name.empty() ? std::nullopt : std::optional(csv.column(name));
  };
  const auto prompt = optional_column(index.prompt_tokens), domain = optional_column(index.domain),
             ids = optional_column(index.ids_offset), scores = optional_column(index.scores_offset);
  Requests requests;
  requests.prompts = prompt.has_value();
  while (csv.next()) {
    Request request;
    request.tokens = csv.unsigned_at(tokens, "a number of tokens");
    if (request.tokens > std::numeric_limits<std::uint64_t>::max() / 2 - requests.tokens)
      csv.fail(tokens, "more tokens than a trace can have");
    requests.tokens += request.tokens;
    if (prompt) request.prompt_tokens = csv.unsigned_at(*prompt, "a number of tokens");
    if (request.prompt_tokens > request.tokens) csv.fail(*prompt, "more prompt tokens than tokens");
    if (domain && !requests.domains.add(csv.field(*domain)))
      csv.fail(*domain, std::string(DomainNames::kTooMany));
    if (domain) request.domain = requests.domains.number_of(csv.field(*domain));
    if (ids) request.ids_offset = csv.signed_at(*ids, "an offset in bytes");
    if (scores) request.scores_offset = csv.signed_at(*scores, "an offset in bytes, or -1");
    requests.all.push_back(request);
  }
  return requests;
}

class ArrayImport {
 public:
  ArrayImport(ArrayKind kind, const std::filesystem::path& input, const ArrayNames& names,
              const ImportTarget& target, const Progress& progress)
      : kind_(kind), input_(input), names_(names), target_(target), progress_(progress) {
    if (kind == ArrayKind::npz) archive_.emplace(input);
  }

  ImportCounts run() {
    const bool indexed = !names_.index.file.empty();
    if (indexed && !names_.offsets.empty()) throw InputError("--offsets", "and --index cannot both be given");
    if (indexed) requests_ = read_index(names_.index);
    if (kind_ == ArrayKind::raw && !indexed && !names_.tokens)
      throw InputError("--tokens", "or --index must say how many rows of routing there are");
    if (kind_ == ArrayKind::raw && (target_.layers == 0 || target_.top_k == 0))
      throw InputError("--layers and --top-k", "must give the shape: raw numbers have none of their own");
    open_ids();
    if (!indexed) read_offsets();
    if (requests_.tokens != tokens_)
      throw InputError(indexed ? names_.index.file.string() : ids_->name(),
                       "the requests have " + std::to_string(requests_.tokens) + " rows; the ids " +
                           std::to_string(tokens_));
    open_others();
    return write();
  }

 private:
  std::uint64_t raw_tokens() const { return names_.tokens ? *names_.tokens : requests_.tokens; }

  NpyArray open(const std::string& name, NpyType raw_type, std::uint64_t width) {
    switch (kind_) {
      case ArrayKind::npz: {
        const ZipMember* member = archive_->find(name + ".npy");
        return NpyArray(archive_->open(member != nullptr ? *member : archive_->member(name), progress_));
      }
      case ArrayKind::npy:
        return NpyArray(InputStream(name, progress_));
      case ArrayKind::raw:
        break;
    }
    return NpyArray(InputStream(name, progress_), raw_type, {raw_tokens(), target_.layers, width});
  }

  void open_ids() {
    ids_.emplace(
        open(kind_ == ArrayKind::npz ? names_.ids : input_.string(), names_.ids_type, target_.top_k));
    const std::vector<std::uint64_t>& shape = ids_->shape();
    if (shape.size() != 3 || shape[1] == 0 || shape[2] == 0 || shape[2] > target_.experts ||
        shape[1] > kMostNumbersOfToken / std::max<std::uint64_t>(target_.experts, 1))
      throw InputError(ids_->name(), "the ids have the shape " + ids_->shape_text() +
                                         "; expected [tokens, layers, k] with k at most the " +
                                         std::to_string(target_.experts) + " experts");
    tokens_ = shape[0];
    layers_ = shape[1];
    top_k_ = shape[2];
  }

  void open_others() {
    const auto open_checked = [&](std::optional<NpyArray>& array, const std::string& name, const char* what,
                                  NpyType type, const std::vector<std::uint64_t>& shape) {
      if (name.empty()) return;
      array.emplace(open(name, type, shape.back()));
      if (array->shape() != shape)
        throw InputError(array->name(), std::string("the ") + what + " have the shape " +
                                            array->shape_text() + ", which does not fit ids of the shape " +
                                            ids_->shape_text());
    };
    std::uint64_t scored = 0;
    for (const Request& request : requests_.all) scored += is_scored(request) ? request.tokens : 0;
    const std::uint64_t rows = kind_ == ArrayKind::raw ? tokens_ : scored;
    open_checked(scores_, names_.scores, "scores", names_.scores_type, {rows, layers_, top_k_});
    open_checked(router_, names_.router_scores, "router scores", names_.scores_type,
                 {tokens_, layers_, target_.experts});
    open_checked(phases_, names_.phases, "phases", NpyType::u1, {tokens_});
    for (std::optional<NpyArray>* array : {&scores_, &router_}) {
      if (*array && names_.scores_bf16 && (*array)->type() == NpyType::u2) (*array)->set_type(NpyType::bf16);
    }
  }

  void read_offsets() {
    std::vector<std::int64_t> offsets{0, static_cast<std::int64_t>(tokens_)};
    if (!names_.offsets.empty()) {
      NpyArray array = open(names_.offsets, NpyType::u8, 1);
      if (array.shape().size() != 1 || array.shape()[0] < 2 || array.shape()[0] > kMostNumbersOfToken)
        throw InputError(array.name(),
                         "the offsets have the shape " + array.shape_text() + "; expected [requests + 1]");
      array.expect(array.shape()[0], "request offsets");
      offsets.resize(array.shape()[0]);
      array.read(offsets, "request offsets");
      array.expect_end();
      if (offsets.front() != 0)
        array.fail("the first offset is " + std::to_string(offsets.front()) + "; expected 0");
      for (std::size_t i = 1; i < offsets.size(); ++i) {
        if (offsets[i] < offsets[i - 1])
          array.fail("offset " + std::to_string(i) + " is below the one before it");
      }
    }
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      Request request;
      request.tokens = static_cast<std::uint64_t>(offsets[i] - offsets[i - 1]);
      requests_.tokens += request.tokens;
      requests_.all.push_back(request);
    }
  }

  static bool is_scored(const Request& request) {
    return !request.scores_offset || *request.scores_offset >= 0;
  }

  ImportCounts write() {
    TokenAssembler assembler(target_, scores_.has_value(), requests_.domains.names(), false);
    ids_->expect(layers_ * top_k_, "expert ids");
    token_ids_.resize(layers_ * top_k_);
    if (scores_) token_scores_.resize(layers_ * top_k_);
    if (router_) router_->expect(layers_ * target_.experts, "router scores");
    if (router_) token_router_.resize(layers_ * target_.experts);
    std::uint64_t number = 0;
    for (const Request& request : requests_.all) write_request(assembler, request, number++);
    ids_->expect_end();
    for (std::optional<NpyArray>* array : {&scores_, &router_, &phases_}) {
      if (*array) (*array)->expect_end();
    }
    try {
      assembler.finish();
    } catch (const RowError& error) {
      throw InputError(ids_->name(), error.what());
    }
    return {assembler.tokens(), assembler.prompt_tokens()};
  }

  void check_offset(const std::optional<std::int64_t>& due, const NpyArray& array,
                    std::uint64_t number) const {
    if (due && *due != static_cast<std::int64_t>(array.offset()))
      throw InputError(names_.index.file.string(),
                       "request " + std::to_string(number) + " should begin at byte " + std::to_string(*due) +
                           " of " + array.name() + ", but the requests before it end at byte " +
                           std::to_string(array.offset()));
  }

  void write_request(TokenAssembler& assembler, const Request& request, std::uint64_t number) {
    check_offset(request.ids_offset, *ids_, number);
    const bool scored = scores_ && is_scored(request);
    if (scores_ && !scored && !names_.index.scored_only)
      throw InputError(
          names_.index.file.string(),
          "request " + std::to_string(number) + " has no scores; --scored-only leaves such requests out");
    if (scored) check_offset(request.scores_offset, *scores_, number);
    const std::string name = std::to_string(number);
    if (request.tokens == 0) throw InputError(ids_->name(), "request " + name + " has no rows");
    for (std::uint64_t token = 0; token < request.tokens; ++token) {
      ids_->read(token_ids_, "expert ids");
      if (scored) scores_->read(token_scores_, "scores");
      if (router_) router_->read(token_router_, "router scores");
      const Phase phase = phase_of(request, token);
      if (scores_ && !scored) continue;
      for (std::uint64_t layer = 0; layer < layers_; ++layer)
        add(assembler, name, request, token, layer, phase);
    }
  }

  Phase phase_of(const Request& request, std::uint64_t token) {
    if (phases_) {
      std::int64_t value = 0;
      phases_->read(std::span(&value, 1), "phases");
      if (value < 0 || value > 2)
        phases_->fail("the phase before it is " + std::to_string(value) + "; expected 0, 1 or 2");
      return static_cast<Phase>(value);
    }
    if (!requests_.prompts) return names_.all_phases;
    return token < request.prompt_tokens ? Phase::prefill : Phase::decode;
  }

  void add(TokenAssembler& assembler, const std::string& name, const Request& request, std::uint64_t token,
           std::uint64_t layer, Phase phase) {
    LayerRow row;
    row.request = name;
    row.token = token;
    row.layer = layer;
    row.phase = phase;
    row.domain = request.domain;
    row.ids = std::span(token_ids_).subspan(layer * top_k_, top_k_);
    if (scores_) row.scores = std::span(token_scores_).subspan(layer * top_k_, top_k_);
    if (router_)
      row.router_scores = std::span(token_router_).subspan(layer * target_.experts, target_.experts);
    try {
      assembler.add(row);
    } catch (const RowError& error) {
      const NpyArray& array = error.field == RowField::score              ? (scores_ ? *scores_ : *router_)
                              : error.field == RowField::phase && phases_ ? *phases_
                                                                          : *ids_;
      array.fail("in what ends here, request " + name + ", token " + std::to_string(token) + ", layer " +
                 std::to_string(layer) + ": " + error.what());
    }
  }

  ArrayKind kind_;
  std::filesystem::path input_;
  const ArrayNames& names_;
  const ImportTarget& target_;
  const Progress& progress_;
  std::optional<ZipArchive> archive_;
  Requests requests_;
  std::optional<NpyArray> ids_, scores_, router_, phases_;
  std::uint64_t tokens_ = 0, layers_ = 0, top_k_ = 0;
  std::vector<std::int64_t> token_ids_;
  std::vector<float> token_scores_, token_router_;
};

}  // namespace

ImportCounts import_arrays(ArrayKind kind, const std::filesystem::path& input, const ArrayNames& names,
                           const ImportTarget& target, const Progress& progress) {
  return ArrayImport(kind, input, names, target, progress).run();
}

}  // namespace moelab
