// Reads by pread, one at a time: what works everywhere.
#pragma once

#include <mutex>
#include <optional>

#include "hw/io/read_file.hpp"
#include "hw/io/reader.hpp"

namespace moelab {

/// The read itself happens in wait(), so that submitting never blocks.
class PreadReader final : public Reader {
 public:
  PreadReader(ReadFile file, std::string why) : Reader(std::move(why)), file_(std::move(file)) {}

  std::string name() const override { return file_.direct() ? "direct" : "buffered"; }
  std::size_t alignment() const override { return file_.alignment(); }
  std::size_t depth() const override { return 1; }
  std::uint64_t size() const override { return file_.size(); }
  const std::string& source() const override { return file_.name(); }
  void submit(const ReadRequest& request) override;
  ReadCompletion wait() override;

 private:
  std::size_t read(const ReadRequest& request) const;

  ReadFile file_;
  std::mutex mutex_;  // of what follows
  std::optional<ReadRequest> request_;
};

}  // namespace moelab
