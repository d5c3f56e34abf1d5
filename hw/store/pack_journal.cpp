#include "hw/store/pack_journal.hpp"

#include <array>

#include "models/input_error.hpp"

namespace moelab {

namespace {

constexpr std::uint64_t kMagic = 0x4a5042414c454f4d;  // "MOELABPJ"
constexpr std::uint64_t kJournalVersion = 1;
constexpr std::size_t kHeaderWords = 4;

std::uint64_t checksum_of(std::span<const std::uint64_t> words) {
  return checksum(std::as_bytes(words));
}

/// Of all that decides a store's bytes.
std::uint64_t fingerprint(const ChunkStoreDescription& description, const std::string& identity) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += std::to_string(part.size()) + ':' + part; };
  add(identity);
  add(description.weights.model);
  add(description.weights.source);
  add(description.codec);
  add(std::to_string(description.shards));
  add(std::to_string(description.weights.experts));
  for (const std::uint32_t layer : description.weights.layers) add(std::to_string(layer));
  for (const ExpertTensorKind& kind : description.weights.kinds)
    add(kind.name + ' ' + std::to_string(kind.rows) + ' ' + std::to_string(kind.columns));
  return checksum(std::as_bytes(std::span(text)));
}

}  // namespace

PackJournal::PackJournal(const std::filesystem::path& path, ChunkStoreDescription description,
                         const std::string& identity)
    : description_(std::move(description)), file_(StoreFile::open_to_write(path)) {
  if (!file_.lock()) throw InputError(file_.name(), "another process is packing here");
  std::array<std::uint64_t, kHeaderWords> due = {kMagic, kJournalVersion, fingerprint(description_, identity),
                                                 0};
  due.back() = checksum_of(std::span(due).first(kHeaderWords - 1));
  std::array<std::uint64_t, kHeaderWords> found{};
  if (file_.bytes() < sizeof found) {  // new, or killed before anything was packed
    file_.resize(0);
    file_.write_at(0, std::as_bytes(std::span(due)));
    return;
  }
  file_.read_at(0, std::as_writable_bytes(std::span(found)));
  if (found == due) return;
  throw InputError(path.parent_path().string(),
                   found[0] == kMagic && found.back() == checksum_of(std::span(found).first(kHeaderWords - 1))
                       ? "holds an unfinished pack of another source, model, codec or number of shards; "
                         "remove this folder to start anew"
                       : "holds a damaged journal; remove this folder to start anew");
}

std::uint64_t PackJournal::record_words() const {
  return 2 + 3 * description_.chunks_per_tensor() + std::tuple_size_v<ByteCounts> + 1;
}

std::uint64_t PackJournal::offset_of(std::uint64_t ordinal) const {
  return (kHeaderWords + ordinal * record_words()) * sizeof(std::uint64_t);
}

std::optional<JournalRecord> PackJournal::read(std::uint64_t ordinal) const {
  if (file_.bytes() < offset_of(ordinal + 1)) return {};
  std::vector<std::uint64_t> words(record_words());
  file_.read_at(offset_of(ordinal), std::as_writable_bytes(std::span(words)));
  if (words.front() != ordinal || words.back() != checksum_of(std::span(words).first(words.size() - 1)))
    return {};
  JournalRecord record{words[1], {}, {}};
  const ExpertWeights& weights = description_.weights;
  const std::uint64_t elements = weights.kinds[place_of(weights, ordinal).kind].elements();
  std::size_t at = 2;
  for (std::uint32_t c = 0; c <= description_.shards; ++c, at += 3)
    record.chunks.push_back(
        {words[at + 2] != 0 ? description_.codec : "none",
         c < description_.shards ? shard_range(elements, description_.shards, c).size : elements, words[at],
         words[at + 1]});
  for (std::uint64_t& count : record.exponents) count = words[at++];
  return record;
}

void PackJournal::cut(std::uint64_t ordinal) {
  if (file_.bytes() > offset_of(ordinal)) file_.resize(offset_of(ordinal));
}

void PackJournal::write(std::uint64_t ordinal, const JournalRecord& record) {
  std::vector<std::uint64_t> words = {ordinal, record.tensor_checksum};
  for (const ChunkRecord& chunk : record.chunks)
    words.insert(words.end(), {chunk.stored_bytes, chunk.checksum, chunk.codec != "none"});
  words.insert(words.end(), record.exponents.begin(), record.exponents.end());
  words.push_back(checksum_of(words));
  file_.write_at(offset_of(ordinal), std::as_bytes(std::span(words)));
}

}  // namespace moelab
