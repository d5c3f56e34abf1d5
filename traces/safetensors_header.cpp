#include "traces/safetensors_header.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "models/input_error.hpp"
#include "models/json.hpp"

namespace moelab {
namespace {

// Tells the parser's events where in the header they are, which nlohmann's parser does not.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// Takes the parser's events. The place in the format is the whole state, so anything deeper, or of another
// type than the format has there, is refused where it starts.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& file, std::string_view json)
      : file_(file), first_(json.data()), furthest_(first_) {}

  CountingIterator at(const char* position) { return {position, &furthest_}; }
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { unexpected("the number " + std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override {
    unexpected("the number " + text.substr(0, 40));
  }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& text) override;
  bool key(string_t& name) override;
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail("the header is not valid JSON: " + printable(said_by_library(error.what()), 300));
  }

 private:
  enum class Place {
    outside,
    top,
    metadata_value,
    metadata,
    metadata_text,
    tensor_value,
    tensor,
    dtype,
    shape_value,
    shape,
    offsets_value,
    offsets
  };

  // The last byte read: an event comes when its token has been read, for numbers with one byte more.
  std::uint64_t byte() const {
    return kHeaderStart + static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(furthest_ - first_, 1)) - 1;
  }
  [[noreturn]] void fail(const std::string& what) const { fail_at_byte(file_, byte(), what); }
  [[noreturn]] void unexpected(const std::string& found) const {
    fail("found " + found + " where " + expected() + " is due");
  }
  std::string expected() const;
  bool field(Place place, bool& seen, const char* name);
  bool tensor_field(const std::string& name);

  const std::string& file_;
  const char* first_;
  const char* furthest_;
  SafetensorsHeader header_;
  std::set<std::string> names_;
  Place place_ = Place::outside;
  std::string metadata_name_;
  std::size_t offsets_ = 0;
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

std::string HeaderReader::expected() const {
  const std::string tensor =
      header_.tensors.empty() ? "" : " of tensor " + quoted_name(header_.tensors.back().name);
  switch (place_) {
    case Place::outside:
    case Place::top:
      return "the header's object";
    case Place::metadata_value:
      return "the object of __metadata__";
    case Place::metadata:
    case Place::metadata_text:
      return "the text of metadata " + quoted_name(metadata_name_);
    case Place::tensor_value:
    case Place::tensor:
      return "the object" + tensor;
    case Place::dtype:
      return "the name of the dtype" + tensor;
    case Place::shape_value:
      return "the array of the shape" + tensor;
    case Place::shape:
      return "a size below 2^64 in the shape" + tensor;
    case Place::offsets_value:
      return "the array of data_offsets" + tensor;
    case Place::offsets:
      return "an offset below 2^64 in data_offsets" + tensor;
  }
  return {};
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::shape) {
    if (header_.tensors.back().shape.size() == kMaxDimensions) {
      fail("tensor " + quoted_name(header_.tensors.back().name) + " has more than " +
           std::to_string(kMaxDimensions) + " dimensions");
    }
    header_.tensors.back().shape.push_back(value);
  } else if (place_ == Place::offsets && offsets_ < 2) {
    (offsets_++ == 0 ? header_.tensors.back().begin : header_.tensors.back().end) = value;
  } else if (place_ == Place::offsets) {
    fail("data_offsets of tensor " + quoted_name(header_.tensors.back().name) + " has more than two numbers");
  } else {
    unexpected("the number " + std::to_string(value));
  }
  return true;
}

bool HeaderReader::string(string_t& text) {
  if (place_ == Place::metadata_text) {
    header_.metadata.emplace(std::move(metadata_name_), std::move(text));
    place_ = Place::metadata;
  } else if (place_ == Place::dtype) {
    const std::optional<Dtype> dtype = dtype_named(text);
    if (!dtype) {
      fail("tensor " + quoted_name(header_.tensors.back().name) + " has the unknown dtype " +
           quoted_name(text));
    }
    header_.tensors.back().dtype = *dtype;
    place_ = Place::tensor;
  } else {
    unexpected("the text " + quoted_name(text));
  }
  return true;
}

bool HeaderReader::key(string_t& name) {
  if (place_ == Place::tensor) return tensor_field(name);
  if (place_ == Place::metadata) {
    if (header_.metadata.count(name) != 0) fail("metadata " + quoted_name(name) + " comes twice");
    metadata_name_ = std::move(name);
    place_ = Place::metadata_text;
  } else if (name == kMetadataKey) {
    if (std::exchange(has_metadata_, true)) fail("__metadata__ comes twice");
    place_ = Place::metadata_value;
  } else {
    if (!names_.insert(name).second) fail("tensor " + quoted_name(name) + " comes twice");
    header_.tensors.emplace_back().name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    place_ = Place::tensor_value;
  }
  return true;
}

bool HeaderReader::tensor_field(const std::string& name) {
  if (name == "dtype") return field(Place::dtype, has_dtype_, "dtype");
  if (name == "shape") return field(Place::shape_value, has_shape_, "shape");
  if (name == "data_offsets") return field(Place::offsets_value, has_offsets_, "data_offsets");
  fail("tensor " + quoted_name(header_.tensors.back().name) + " has the unknown field " + quoted_name(name) +
       " (known: dtype, shape, data_offsets)");
}

bool HeaderReader::field(Place place, bool& seen, const char* name) {
  if (std::exchange(seen, true)) {
    fail(std::string(name) + " of tensor " + quoted_name(header_.tensors.back().name) + " comes twice");
  }
  place_ = place;
  offsets_ = 0;
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  switch (place_) {
    case Place::outside:
      place_ = Place::top;
      return true;
    case Place::metadata_value:
      place_ = Place::metadata;
      return true;
    case Place::tensor_value:
      place_ = Place::tensor;
      return true;
    default:
      unexpected("an object");
  }
}

bool HeaderReader::end_object() {
  if (place_ == Place::tensor) {
    TensorEntry& tensor = header_.tensors.back();
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      fail("tensor " + quoted_name(tensor.name) + " has no " +
           (!has_dtype_ ? "dtype" : (!has_shape_ ? "shape" : "data_offsets")));
    }
    tensor.header_byte = byte();
    place_ = Place::top;
  } else {
    place_ = place_ == Place::metadata ? Place::top : Place::outside;
  }
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (place_ == Place::shape_value) {
    place_ = Place::shape;
  } else if (place_ == Place::offsets_value) {
    place_ = Place::offsets;
  } else {
    unexpected("an array");
  }
  return true;
}

bool HeaderReader::end_array() {
  if (place_ == Place::offsets && offsets_ != 2) {
    fail("data_offsets of tensor " + quoted_name(header_.tensors.back().name) + " has " +
         std::to_string(offsets_) + " numbers, not two");
  }
  place_ = Place::tensor;
  return true;
}

/// A byte of printable ASCII, or of a line's end.
bool is_of_text(std::byte byte) {
  const auto c = std::to_integer<unsigned char>(byte);
  return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t';
}

/// What makes a trace of files whose names end so.
std::string import_hint(const std::string& file) {
  for (const std::string_view form : {"csv", "jsonl"})
    if (file.ends_with("." + std::string(form)))
      return "; 'moelab trace import " + std::string(form) + " " + file +
             " --experts N --out trace.safetensors ...' makes one of a table of routing ('moelab trace "
             "import " +
             std::string(form) + " --help')";
  return "";
}

}  // namespace

std::uint64_t safetensors_header_length(const std::string& file, std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (std::all_of(bytes.begin(), bytes.begin() + sizeof length, is_of_text))
    fail_at_byte(file, 0, "begins as a text does: not a safetensors file" + import_hint(file));
  if (length > kMaxHeaderBytes)
    fail_at_byte(file, 0,
                 "the header's length is " + std::to_string(length) + " bytes, more than the limit of " +
                     std::to_string(kMaxHeaderBytes) + ": not a safetensors file");
  return length;
}

SafetensorsHeader parse_safetensors_header(const std::string& file, std::string_view json) {
  if (json.empty() || json.front() != '{') {
    fail_at_byte(file, kHeaderStart, "the header does not start with '{': not a safetensors file");
  }
  // nlohmann takes a zero byte for the end of its input, and what follows would go unseen.
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos) {
    fail_at_byte(file, kHeaderStart + zero, "the header holds a zero byte");
  }
  HeaderReader reader(file, json);
  read_json_events(reader.at(json.data()), reader.at(json.data() + json.size()), reader);
  return reader.take();
}

void fail_at_byte(const std::string& file, std::uint64_t byte, const std::string& what) {
  throw InputError(file, "byte " + std::to_string(byte) + ": " + what);
}

}  // namespace moelab
