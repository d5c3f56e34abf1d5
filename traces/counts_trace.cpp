#include "traces/counts_trace.hpp"

#include <cassert>
#include <limits>
#include <optional>
#include <utility>

#include "models/input_error.hpp"
#include "traces/domain_list.hpp"
#include "traces/trace_file.hpp"

namespace moelab {

struct CountsTrace::Impl {
  CountsDescription about;
  std::span<const std::uint64_t> counts;  // [prompts, layers, experts]
  std::vector<std::uint16_t> domains;     // [prompts], or empty

  // Where the counts are: in a file, or here.
  TraceColumn<std::uint64_t> copied;
  std::vector<std::uint64_t> own;
  std::optional<SafetensorsFile> file;
};

namespace {

constexpr std::string_view kVersion = "1";

std::string name_of_trace(const CountsDescription& about) {
  return about.model.empty() ? "counts-only trace" : "counts-only trace of " + about.model;
}

/// The place of the first count that makes the sum of all so far overflow.
std::optional<std::size_t> first_overflow(std::span<const std::uint64_t> counts, std::uint64_t& sum) {
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (__builtin_add_overflow(sum, counts[i], &sum)) return i;
  return std::nullopt;
}

std::string overflow_at(const CountsDescription& about, std::uint64_t place) {
  const std::uint64_t row = place / about.experts;
  return "prompt " + std::to_string(row / about.layers) + ", layer " + std::to_string(row % about.layers) +
         ", expert " + std::to_string(place % about.experts) +
         ": with this count the sum of all does not fit 64 bits";
}

void check_made(const std::string& name, const CountsDescription& about,
                std::span<const std::uint64_t> counts, std::span<const std::uint16_t> prompt_domains) {
  const auto need = [&](bool good, const char* what, std::uint64_t value, const std::string& range) {
    if (!good)
      throw InputError(name, std::string(what) + " is " + std::to_string(value) + ", but must be " + range);
  };
  need(about.prompts >= 1, "prompts", about.prompts, "at least 1");
  need(about.layers >= 1, "layers", about.layers, "at least 1");
  need(about.experts >= 1 && about.experts <= 65535, "experts", about.experts, "between 1 and 65535");
  need(about.top_k <= about.experts, "top_k", about.top_k,
       "at most the number of experts, " + std::to_string(about.experts) + ", or 0 (not said)");
  std::uint64_t due = 0;
  const bool fits = !__builtin_mul_overflow(std::uint64_t{about.layers} * about.experts, about.prompts, &due);
  need(fits && counts.size() == due, "the number of counts", counts.size(), "prompts * layers * experts");
  const std::uint64_t domains_due = about.domains.empty() ? 0 : about.prompts;
  need(prompt_domains.size() == domains_due, "the number of prompts with a domain", prompt_domains.size(),
       std::to_string(domains_due));
  for (std::size_t i = 0; i < prompt_domains.size(); ++i)
    need(prompt_domains[i] < about.domains.size(), ("the domain of prompt " + std::to_string(i)).c_str(),
         prompt_domains[i], "below the number of domains, " + std::to_string(about.domains.size()));
  domain_list_text(name, about.domains);
  std::uint64_t sum = 0;
  if (const auto place = first_overflow(counts, sum)) throw InputError(name, overflow_at(about, *place));
}

/// The description, all but its domains, of a file whose tensor names are known ones.
CountsDescription read_description(const TraceFile& file, const Tensor& counts) {
  CountsDescription about;
  about.model = file.text_of("model");
  about.provenance = file.text_of("provenance");
  about.synthetic = file.synthetic();
  const auto need = [&](bool good, const char* what, std::uint64_t value, const char* range) {
    if (!good)
      file.fail_at(
          counts, 0,
          std::string("counts has ") + std::to_string(value) + " " + what + ", but must have " + range);
  };
  need(counts.shape[0] >= 1, "prompts", counts.shape[0], "at least 1");
  need(counts.shape[1] >= 1 && counts.shape[1] <= std::numeric_limits<std::uint32_t>::max(), "layers",
       counts.shape[1], "1 to 2^32 - 1");
  need(counts.shape[2] >= 1 && counts.shape[2] <= 65535, "experts", counts.shape[2], "1 to 65535");
  about.prompts = counts.shape[0];
  about.layers = static_cast<std::uint32_t>(counts.shape[1]);
  about.experts = static_cast<std::uint32_t>(counts.shape[2]);
  about.top_k = file.text_of("top_k").empty() ? 0 : file.number_of("top_k");
  if (about.top_k > about.experts)
    file.fail("metadata 'top_k' is " + std::to_string(about.top_k) + ", but counts has " +
              std::to_string(about.experts) + " experts");
  return about;
}

}  // namespace

CountsTrace::CountsTrace(CountsDescription description, std::vector<std::uint64_t> counts,
                         std::vector<std::uint16_t> prompt_domains) {
  check_made(name_of_trace(description), description, counts, prompt_domains);
  const auto impl = std::make_shared<Impl>();
  impl->about = std::move(description);
  impl->own = std::move(counts);
  impl->counts = impl->own;
  impl->domains = std::move(prompt_domains);
  impl_ = impl;
}

std::uint64_t CountsTrace::prompts() const {
  return impl_->about.prompts;
}
std::uint32_t CountsTrace::layers() const {
  return impl_->about.layers;
}
std::uint32_t CountsTrace::experts() const {
  return impl_->about.experts;
}
std::uint32_t CountsTrace::top_k() const {
  return impl_->about.top_k;
}
const std::string& CountsTrace::model() const {
  return impl_->about.model;
}
const std::string& CountsTrace::provenance() const {
  return impl_->about.provenance;
}
bool CountsTrace::synthetic() const {
  return impl_->about.synthetic;
}
const std::vector<std::string>& CountsTrace::domains() const {
  return impl_->about.domains;
}
const CountsDescription& CountsTrace::description() const {
  return impl_->about;
}

std::uint16_t CountsTrace::domain_of(std::uint64_t prompt) const {
  assert(prompt < impl_->about.prompts);
  return impl_->domains.empty() ? std::uint16_t{0} : impl_->domains[prompt];
}

std::span<const std::uint64_t> CountsTrace::counts(std::uint64_t prompt, std::uint32_t layer) const {
  assert(prompt < impl_->about.prompts && layer < impl_->about.layers);
  return impl_->counts.subspan((prompt * impl_->about.layers + layer) * impl_->about.experts,
                               impl_->about.experts);
}

CountsTrace read_counts_trace(const std::string& path) {
  const TraceFile file(path, kCountsFormat);
  file.check_version({kVersion});
  file.check_tensor_names({"counts", "request_domains"});
  const Tensor& tensor = file.tensor_of("counts", {Dtype::u64}, 3);
  const auto impl = std::make_shared<CountsTrace::Impl>();
  impl->about = read_description(file, tensor);
  impl->counts = in_place_or_copied(tensor, impl->copied);
  std::uint64_t sum = 0;
  visit_in_parts(impl->counts, 1, !impl->copied.in_memory(), [&](std::size_t first, auto counts) {
    if (const auto place = first_overflow(counts, sum))
      file.fail_at(tensor, (first + *place) * sizeof(std::uint64_t),
                   "counts, " + overflow_at(impl->about, first + *place));
  });
  TraceFile::Domains domains = file.read_domains(impl->about.prompts);
  impl->about.domains = std::move(domains.names);
  impl->domains = std::move(domains.of_request);
  impl->file = file.container();
  return CountsTrace(impl);
}

void write_counts_trace(const CountsTrace& trace, const std::string& path) {
  const CountsDescription& about = trace.impl_->about;
  std::vector<Tensor> tensors{{"counts",
                               Dtype::u64,
                               {about.prompts, about.layers, about.experts},
                               std::as_bytes(trace.impl_->counts)}};
  TensorMetadata metadata{{"format", std::string(kCountsFormat)},
                          {"format_version", std::string(kVersion)},
                          {"model", about.model},
                          {"top_k", about.top_k != 0 ? std::to_string(about.top_k) : std::string()},
                          {"provenance", about.provenance},
                          {"kind", std::string(about.synthetic ? kSynthetic : kRecorded)}};
  if (!about.domains.empty()) {
    tensors.push_back(
        {"request_domains", Dtype::u16, {about.prompts}, std::as_bytes(std::span(trace.impl_->domains))});
    metadata["domains"] = domain_list_text(path, about.domains);
  }
  write_safetensors(path, tensors, metadata);
}

}  // namespace moelab
