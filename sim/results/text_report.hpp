// What a command tells people: sentences, tables and pictures, as plain text for a terminal or as Markdown
// for issues and papers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/results/text_table.hpp"

namespace moelab {

struct TextForm {
  bool markdown = false;
  std::size_t width = 0;  // of plain text: characters of a line that all but pictures keep to; 0: any number
};

class TextReport {
 public:
  /// `marked`: names that get a '*' where they begin a row of a table.
  explicit TextReport(TextForm form, std::vector<std::string> marked = {});

  /// Lines, each with its end, wrapped where they are longer than a line; what is empty adds nothing.
  void add_lines(const std::string& lines);
  /// A table without its empty columns: those behind the left ones in which every cell but the heading is ""
  /// or "-". One of which but names are left then, or that has no row beside its heading, adds nothing.
  void add_table(TextTable table);
  /// Lines whose characters stand below each other.
  void add_picture(const std::string& lines);
  /// What is added next, if anything, follows without a blank line, where the form does not need one.
  void join_next();

  const std::string& text() const { return text_; }

 private:
  void add(const std::string& block);

  TextForm form_;
  std::vector<std::string> marked_;
  bool joins_ = false;
  std::string text_;
};

}  // namespace moelab
