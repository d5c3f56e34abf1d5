#include "traces/import/pickle_reader.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "models/input_error.hpp"
#include "traces/import/csv_reader.hpp"

namespace moelab {
namespace {

// Some 20 for each record of a server's step; the numbers themselves are in storages. Each takes up to 50
// bytes.
constexpr std::size_t kMostOpcodes = std::size_t{1} << 24;
// Each tensor keeps its sizes and the key of its storage, also where the pickle says them once for many:
// without limits, memory would grow with the square of the file.
constexpr std::size_t kMostSizes = 64, kLongestKey = 64;
constexpr std::string_view kRebuild = "torch._utils _rebuild_tensor_v2", kOrdered = "collections OrderedDict";
constexpr std::array<std::pair<std::string_view, NpyType>, 10> kStorages{
    {{"torch ByteStorage", NpyType::u1},
     {"torch BoolStorage", NpyType::u1},
     {"torch CharStorage", NpyType::i1},
     {"torch ShortStorage", NpyType::i2},
     {"torch IntStorage", NpyType::i4},
     {"torch LongStorage", NpyType::i8},
     {"torch HalfStorage", NpyType::f2},
     {"torch BFloat16Storage", NpyType::bf16},
     {"torch FloatStorage", NpyType::f4},
     {"torch DoubleStorage", NpyType::f8}}};

}  // namespace

// A stack machine, as Python's, whose values are plain.
class PickleMachine {
 public:
  using Kind = Pickle::Kind;
  using Node = Pickle::Node;

  PickleMachine(Pickle& pickle, std::string_view bytes, const std::string& file)
      : pickle_(pickle), bytes_(bytes), file_(file) {}

  void run() {
    for (std::size_t opcodes = 0;; ++opcodes) {
      at_ = position_;
      if (opcodes == kMostOpcodes)
        fail("has more than 2^24 opcodes; expected numbers in tensors, not one by one");
      const auto opcode = take<std::uint8_t>();
      if (opcode == '.') break;
      step(opcode);
    }
    pickle_.root_ = pop();
    if (!stack_.empty()) fail("ends with values left over");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(file_, "byte " + std::to_string(at_) + " of the pickle: " + what);
  }
  std::string_view take_text(std::uint64_t size) {
    if (size > bytes_.size() - position_) fail("is cut short");
    const std::string_view text = bytes_.substr(position_, size);
    position_ += size;
    return text;
  }
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take_text(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take_line() {
    const std::size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) fail("is cut short");
    const std::string_view line = take_text(end - position_);
    ++position_;
    return line;
  }

  Node make(Kind kind, std::int64_t integer = 0, std::uint32_t index = 0) {
    pickle_.values_.push_back({kind, index, integer});
    return static_cast<Node>(pickle_.values_.size() - 1);
  }
  void push(Node node) { stack_.push_back(node); }
  void push_text(std::string_view text, Kind kind = Kind::text) {
    pickle_.texts_.emplace_back(text);
    push(make(kind, 0, static_cast<std::uint32_t>(pickle_.texts_.size() - 1)));
  }
  void push_container(Kind kind, std::vector<Node> items) {
    pickle_.containers_.push_back(std::move(items));
    push(make(kind, 0, static_cast<std::uint32_t>(pickle_.containers_.size() - 1)));
  }
  Node pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size()))
      fail("takes a value that is not there");
    const Node node = stack_.back();
    stack_.pop_back();
    return node;
  }
  std::vector<Node> pop_count(std::size_t count) {
    std::vector<Node> nodes(count);
    for (std::size_t i = count; i-- > 0;) nodes[i] = pop();
    return nodes;
  }
  std::vector<Node> pop_to_mark() {
    if (marks_.empty()) fail("takes values back to a mark that is not there");
    std::vector<Node> nodes(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return nodes;
  }
  void extend(Kind kind, const std::vector<Node>& nodes) {
    if (stack_.empty() || pickle_.kind(stack_.back()) != kind)
      fail("adds to a value that is not there or of another kind");
    const Node to = stack_.back();
    if (kind == Kind::dict && nodes.size() % 2 != 0) fail("adds a key without a value");
    std::vector<Node>& items = pickle_.containers_[pickle_.values_[to].index];
    items.insert(items.end(), nodes.begin(), nodes.end());
  }
  void remember(std::uint64_t number) {
    if (stack_.empty()) fail("remembers a value that is not there");
    memo_[number] = stack_.back();
  }
  void recall(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) fail("recalls a value that was never remembered");
    push(found->second);
  }

  void step(std::uint8_t opcode) {
    switch (opcode) {
      case 0x80: {  // PROTO
        const auto version = take<std::uint8_t>();
        if (version < 2 || version > 5)
          fail("pickle protocol " + std::to_string(version) + "; known are 2 to 5");
        return;
      }
      case 0x95:
        take<std::uint64_t>();
        return;  // FRAME
      case '(':
        marks_.push_back(stack_.size());
        return;
      case 'N':
        return push(make(Kind::none));
      case 0x88:
        return push(make(Kind::boolean, 1));
      case 0x89:
        return push(make(Kind::boolean, 0));
      case 'J':
        return push(make(Kind::integer, take<std::int32_t>()));
      case 'K':
        return push(make(Kind::integer, take<std::uint8_t>()));
      case 'M':
        return push(make(Kind::integer, take<std::uint16_t>()));
      case 0x8a:
        return push_long(take<std::uint8_t>());
      case 'G':
        take<std::uint64_t>();
        return push(make(Kind::number));  // its value is not asked for
      case 'X':
        return push_text(take_text(take<std::uint32_t>()));
      case 0x8c:
        return push_text(take_text(take<std::uint8_t>()));
      case 'c':
        return push_name();
      case 0x93: {
        const std::vector<Node> names = pop_count(2);
        if (pickle_.kind(names[0]) != Kind::text || pickle_.kind(names[1]) != Kind::text)
          fail("a name that is no text");
        return push_known(pickle_.text(names[0]) + " " + pickle_.text(names[1]));
      }
      default:
        return step_container(opcode);
    }
  }

  void step_container(std::uint8_t opcode) {
    switch (opcode) {
      case ']':
        return push_container(Kind::list, {});
      case '}':
        return push_container(Kind::dict, {});
      case ')':
        return push_container(Kind::tuple, {});
      case 'l':
        return push_container(Kind::list, pop_to_mark());
      case 't':
        return push_container(Kind::tuple, pop_to_mark());
      case 0x85:
        return push_container(Kind::tuple, pop_count(1));
      case 0x86:
        return push_container(Kind::tuple, pop_count(2));
      case 0x87:
        return push_container(Kind::tuple, pop_count(3));
      case 'a':
        return extend(Kind::list, pop_count(1));
      case 'e':
        return extend(Kind::list, pop_to_mark());
      case 's':
        return extend(Kind::dict, pop_count(2));
      case 'u':
        return extend(Kind::dict, pop_to_mark());
      case 'q':
        return remember(take<std::uint8_t>());
      case 'r':
        return remember(take<std::uint32_t>());
      case 0x94:
        return remember(memo_.size());
      case 'h':
        return recall(take<std::uint8_t>());
      case 'j':
        return recall(take<std::uint32_t>());
      case 'Q':
        return push_storage();
      case 'R':
        return call();
      default:
        fail("opcode " + std::to_string(opcode) + ", which files of tensors do not need");
    }
  }

  void push_long(std::size_t size) {
    if (size > 8) fail("a whole number of more than 64 bits");
    std::int64_t value = 0;
    const std::string_view bytes = take_text(size);
    std::memcpy(&value, bytes.data(), size);
    const auto unused = static_cast<int>(64 - 8 * size);
    if (size > 0 && size < 8)
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused) >> unused;
    push(make(Kind::integer, value));
  }
  void push_name() {
    const std::string module(take_line());
    push_known(module + " " + std::string(take_line()));
  }
  void push_known(const std::string& name) {
    const bool storage =
        std::any_of(kStorages.begin(), kStorages.end(), [&](const auto& s) { return s.first == name; });
    if (!storage && name != kRebuild && name != kOrdered)
      fail("the Python name " + shown(name) +
           "; only tensors and plain values are read, nothing is executed");
    push_text(name, Kind::name);
  }

  // ('storage', type, key, place, elements)
  void push_storage() {
    const Node id = pop();
    const std::vector<Node> none;
    const std::vector<Node>& parts = pickle_.kind(id) == Kind::tuple ? pickle_.items(id) : none;
    if (parts.size() != 5 || pickle_.kind(parts[1]) != Kind::name || pickle_.kind(parts[2]) != Kind::text)
      fail("a reference that is not to a tensor's storage");
    const auto type = std::find_if(kStorages.begin(), kStorages.end(),
                                   [&](const auto& s) { return s.first == pickle_.text(parts[1]); });
    if (type == kStorages.end()) fail("a storage of an unknown type");
    if (pickle_.text(parts[2]).size() > kLongestKey)
      fail("a storage whose key is longer than " + std::to_string(kLongestKey) + " bytes");
    PickleTensor tensor;
    tensor.type = type->second;
    tensor.storage = pickle_.text(parts[2]);
    pickle_.tensors_.push_back(std::move(tensor));
    push(make(Kind::storage, 0, static_cast<std::uint32_t>(pickle_.tensors_.size() - 1)));
  }

  void call() {
    const Node arguments = pop(), function = pop();
    if (pickle_.kind(function) != Kind::name || pickle_.kind(arguments) != Kind::tuple)
      fail("calls what is no name");
    const std::vector<Node>& items = pickle_.items(arguments);
    if (pickle_.text(function) == kOrdered && items.empty()) return push_container(Kind::dict, {});
    if (pickle_.text(function) != kRebuild)
      fail("calls " + shown(pickle_.text(function)) + " in an unknown way");
    push_tensor(items);
  }

  // _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
  void push_tensor(const std::vector<Node>& items) {
    if (items.size() < 4 || pickle_.kind(items[0]) != Kind::storage ||
        pickle_.kind(items[2]) != Kind::tuple || pickle_.kind(items[3]) != Kind::tuple)
      fail("a tensor made in an unknown way");
    PickleTensor tensor = pickle_.tensor(items[0]);
    tensor.offset = size_of(items[1]);
    const std::vector<Node>& sizes = pickle_.items(items[2]);
    const std::vector<Node>& strides = pickle_.items(items[3]);
    if (sizes.size() != strides.size()) fail("a tensor with as many sizes as strides was expected");
    if (sizes.size() > kMostSizes)
      fail("a tensor of " + std::to_string(sizes.size()) + " dimensions; at most " +
           std::to_string(kMostSizes) + " are read");
    for (const Node size : sizes) tensor.shape.push_back(size_of(size));
    const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0U) != tensor.shape.end();
    std::uint64_t due = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      if (!empty && tensor.shape[i] != 1 && size_of(strides[i]) != due)
        fail("a tensor that is not contiguous; save it with .contiguous()");
      if (tensor.shape[i] != 0 && due > (std::uint64_t{1} << 48) / tensor.shape[i])
        fail("a tensor too large to be there");
      due *= std::max<std::uint64_t>(tensor.shape[i], 1);
    }
    pickle_.tensors_.push_back(std::move(tensor));
    push(make(Kind::tensor, 0, static_cast<std::uint32_t>(pickle_.tensors_.size() - 1)));
  }
  std::uint64_t size_of(Node node) const {
    if (pickle_.kind(node) != Kind::integer || pickle_.integer(node) < 0)
      fail("a tensor's size or stride that is none");
    return static_cast<std::uint64_t>(pickle_.integer(node));
  }

  Pickle& pickle_;
  std::string_view bytes_;
  const std::string& file_;
  std::size_t position_ = 0, at_ = 0;
  std::vector<Node> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Node> memo_;
};

Pickle::Pickle(std::string_view bytes, const std::string& file) {
  PickleMachine(*this, bytes, file).run();
}

const Pickle::Node* Pickle::find(Node node, std::string_view key) const {
  if (kind(node) != Kind::dict) return nullptr;
  const std::vector<Node>& entries = items(node);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    if (kind(entries[i]) == Kind::text && text(entries[i]) == key) return &entries[i + 1];
  }
  return nullptr;
}

}  // namespace moelab
