// What readers of YAML ask for, noted while they read: a list of keys that is made of it says what readers
// take.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moelab {

/// Numbers that a key takes; of quantities in s, B, B/s, FLOP or FLOP/s.
struct AskedRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // true: low itself is not taken
  bool high_open = false;  // true: high itself is not taken
  auto operator<=>(const AskedRange&) const = default;
};

/// One way in which a reader takes a key.
struct AskedKey {
  enum class Form : std::uint8_t {
    text,
    choice,
    boolean,
    integer,
    number,
    time,
    size,
    bandwidth,
    operations,
    operation_rate,
    list,
    map
  };
  /// "cache.policy". "[]" stands for an entry of a list, "NAME" for a key that the file's writer chooses.
  std::string path = {};
  Form form = Form::text;
  std::string bounds = {};                   // " from 1 to 1024", as messages say them; "": none
  AskedRange range = {};                     // the same
  std::vector<std::string> choices = {};     // of a choice
  std::optional<std::string> fallback = {};  // what holds where the key is absent, as a file would say it
  auto operator<=>(const AskedKey&) const = default;
};

std::string_view to_string(AskedKey::Form form);

/// Notes, while it lives, what is asked for on its thread in documents whose name begins with one of
/// `prefixes`. One at a time.
class AskedKeys {
 public:
  explicit AskedKeys(std::vector<std::string> prefixes);
  ~AskedKeys();
  AskedKeys(const AskedKeys&) = delete;
  AskedKeys& operator=(const AskedKeys&) = delete;

  struct OfPrefix {
    std::set<AskedKey> keys = {};
    std::set<std::string> unasked =
        {};  // paths of keys that were taken without a look at whether they are there
    /// By path of a map: the keys that all maps there have that were read to their end.
    std::map<std::string, std::set<std::string>> always = {};
    std::set<std::string> open = {};  // paths of maps whose keys the file's writer chooses
  };
  /// In the prefixes' order.
  const std::vector<OfPrefix>& found() const { return found_; }

  /// Of the document, or nullptr where it is not listened to. For the reader.
  static OfPrefix* of_document(const std::string& name);

 private:
  std::vector<std::string> prefixes_;
  std::vector<OfPrefix> found_;
};

}  // namespace moelab
