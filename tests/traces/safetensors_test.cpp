#include "traces/safetensors.hpp"
#include "models/json.hpp"
#include "traces/mapped_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <filesystem>

#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <random>

#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/atomic_file.hpp"

namespace moelab::safetensors_test {
namespace {

using test::container;
using test::error_of;
using test::ScratchFolder;
using test::write_bytes;

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

TEST_CASE("safetensors: a file made byte by byte") {
  const ScratchFolder scratch;
  // 61 = 0x3d bytes of header (counted by hand: 54 and padding of 7), then int16 {1, -2} and one byte.
  const std::string header = R"({"b":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}       )";
  REQUIRE(header.size() == 61);
  std::string bytes("\x3d\0\0\0\0\0\0\0", 8);
  bytes += header;
  bytes += std::string("\x01\x00\xfe\xff", 4);
  write_bytes(scratch / "f", bytes);

  const SafetensorsFile file = SafetensorsFile::open(scratch / "f");
  REQUIRE(file.tensors().size() == 1);
  const Tensor& tensor = file.tensors()[0];
  CHECK(tensor.name == "b");
  CHECK(tensor.dtype == Dtype::i16);
  CHECK(tensor.shape == std::vector<std::uint64_t>{2});
  CHECK(tensor.file_offset == 69);  // 8 + 61
  CHECK(file.file_bytes() == 73);
  CHECK(bytes_of(tensor) == std::string("\x01\x00\xfe\xff", 4));
  CHECK(file.find("b") == &tensor);
  CHECK(file.find("a") == nullptr);
  CHECK(file.metadata().empty());
  // The data starts at an odd address of the mapping: what asks for alignment must be told.
  CHECK_FALSE(is_aligned_for<std::int16_t>(tensor.data));
}

TEST_CASE("safetensors: tensors come in file order, whatever the header's") {
  const ScratchFolder scratch;
  const std::string header = R"({"late":{"data_offsets":[3,5],"shape":[2,1],"dtype":"U8"},)"
                             R"("__metadata__":{"format":"pt","k\u00e9y":"v\"\n"},)"
                             R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[3,3]},)"
                             R"("early":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},)"
                             R"("scalar":{"dtype":"F8_E4M3","shape":[],"data_offsets":[5,6]}})";
  write_bytes(scratch / "f", container(header, "abcdef"));
  const SafetensorsFile file = SafetensorsFile::open(scratch / "f");
  std::vector<std::string> names;
  for (const Tensor& tensor : file.tensors()) names.push_back(tensor.name + "=" + bytes_of(tensor));
  CHECK(names == std::vector<std::string>{"early=abc", "none=", "late=de", "scalar=f"});
  CHECK(file.metadata() == TensorMetadata{{"format", "pt"}, {"k\u00e9y", "v\"\n"}});
}

TEST_CASE("safetensors: the size of every dtype") {
  // Bits an element, from the names and the format's documentation.
  const std::map<std::string, unsigned> bits{
      {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8}, {"F8_E4M3", 8},     {"F8_E8M0", 8},     {"I16", 16},    {"U16", 16}, {"F16", 16},
      {"BF16", 16},   {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I32", 32},    {"U32", 32}, {"F32", 32},
      {"C64", 64},    {"F64", 64},        {"I64", 64},        {"U64", 64}};
  const ScratchFolder scratch;
  for (const auto& [name, width] : bits) {
    CAPTURE(name);
    const std::size_t size = 12 * width / 8;
    const std::string header =
        R"({"t":{"dtype":")" + name + R"(","shape":[3,4],"data_offsets":[0,)" + std::to_string(size) + "]}}";
    write_bytes(scratch / "f", container(header, std::string(size, 'x')));
    const SafetensorsFile file = SafetensorsFile::open(scratch / "f");
    CHECK(name_of(file.tensors()[0].dtype) == name);
    CHECK(bits_of(file.tensors()[0].dtype) == width);
    write_bytes(scratch / "f", container(header, std::string(size + 1, 'x')));
    CHECK(error_of([&] { SafetensorsFile::open(scratch / "f"); }) != "");
  }
}

std::string one_tensor(const std::string& fields) {
  return "{\"t\":{" + fields + "}}";
}

TEST_CASE("safetensors: hostile files are refused with the file, the byte and the reason") {
  const std::string good = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  const std::string deep(1'000'000, '[');
  struct Case {
    std::string bytes;
    const char* message;
  };
  const Case cases[] = {
      {"", "byte 0: the file ends before"},
      {"1234567", "byte 7: the file ends before"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8),
       "byte 0: the header's length is 18446744073709551615"},
      {std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), "more than the limit of 100000000"},
      {std::string("\x20\0\0\0\0\0\0\0{}", 10), "but the file ends after 10"},
      {container("", ""), "byte 8: the header does not start with '{'"},
      {container("[]", ""), "byte 8: the header does not start with '{'"},
      {container("\xef\xbb\xbf{}", ""), "byte 8: the header does not start with '{'"},
      {container("{", ""), "not valid JSON"},
      {container("{} x", ""), "byte 11: the header is not valid JSON"},
      {container(std::string("{}\0\0", 4), ""), "byte 10: the header holds a zero byte"},
      {container("{\"\xff\":{}}", ""), "byte 10: the header is not valid JSON"},
      {container("{\"t\":" + deep, ""), "byte 13: found an array where the object of tensor 't'"},
      {container("{\"t\":[]}", ""), "found an array"},
      {container("{\"t\":{\"shape\":" + deep, ""), "found an array where a size"},
      {container("{\"t\":{\"shape\":[{", ""), "found an object where a size"},
      {container("{\"t\":null}", ""), "found null"},
      {container("{\"__metadata__\":[]}", ""), "found an array where the object of __metadata__"},
      {container("{\"__metadata__\":{\"a\":1}}", ""), "found the number 1 where the text of metadata 'a'"},
      {container("{\"__metadata__\":{\"a\":{}}}", ""), "found an object where the text of metadata 'a'"},
      {container(R"({"__metadata__":{"a":"","a":""}})", ""), "metadata 'a' comes twice"},
      {container(R"({"__metadata__":{},"__metadata__":{}})", ""), "__metadata__ comes twice"},
      {container("{\"t\":{" + good + "},\"t\":{" + good + "}}", "abcd"), "tensor 't' comes twice"},
      {container(one_tensor(good + ",\"dtype\":\"U8\""), "abcd"), "dtype of tensor 't' comes twice"},
      {container(one_tensor(good + ",\"extra\":1"), "abcd"), "unknown field 'extra'"},
      {container(one_tensor(R"("dtype":"U8","shape":[4])"), "abcd"), "has no data_offsets"},
      {container(one_tensor(R"("dtype":"U8","data_offsets":[0,4])"), "abcd"), "has no shape"},
      {container(one_tensor(R"("shape":[4],"data_offsets":[0,4])"), "abcd"), "has no dtype"},
      {container(one_tensor(R"("dtype":"U7","shape":[4],"data_offsets":[0,4])"), "abcd"),
       "unknown dtype 'U7'"},
      {container(one_tensor(R"("dtype":1,"shape":[4],"data_offsets":[0,4])"), "abcd"), "found the number 1"},
      {container(one_tensor(R"("dtype":"U8","shape":4,"data_offsets":[0,4])"), "abcd"), "found the number 4"},
      {container(one_tensor(R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])"), "abcd"),
       "found the number -4"},
      {container(one_tensor(R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])"), "abcd"),
       "found the number 4.0"},
      {container(one_tensor(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])"), "abcd"),
       "found the number 18446744073709551616"},
      {container(one_tensor(R"("dtype":"U8","shape":[true],"data_offsets":[0,4])"), "abcd"),
       "found a boolean"},
      {container(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0])"), "abcd"),
       "has 1 numbers, not two"},
      {container(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])"), "abcd"), "more than two"},
      {container(one_tensor(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"), "abcd"), "run backwards"},
      {container(one_tensor(R"("dtype":"U8","shape":[5],"data_offsets":[0,5])"), "abcd"),
       "end beyond the file's 4"},
      {container(one_tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,4])"), "abcd"),
       "dtype and shape ask for 3"},
      {container(one_tensor(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"), "abcd"),
       "the 1 bytes before tensor 't' belong to no tensor"},
      {container(one_tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), "abcd"),
       "the last 1 bytes belong to no tensor"},
      {container(one_tensor(R"("dtype":"F4","shape":[7],"data_offsets":[0,4])"), "abcd"), "whole bytes"},
      // 2^32 * 2^32 = 2^64, which is 0 in 64 bits
      {container(one_tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), ""),
       "overflows"},
      // 2^61 elements of 64 bits: the bits are 2^67, the bytes 2^64
      {container(one_tensor(R"("dtype":"U64","shape":[2305843009213693952],"data_offsets":[0,0])"), ""),
       "overflows"},
      {container(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                 "abcd"),
       "tensor 'b' overlaps the tensor before it"},
      {container("{}", "x"), "the last 1 bytes belong to no tensor"},
  };
  const ScratchFolder scratch;
  const std::string path = (scratch / "hostile").string();
  for (const Case& hostile : cases) {
    write_bytes(path, hostile.bytes);
    const std::string error = error_of([&] { SafetensorsFile::open(path); });
    CAPTURE(hostile.bytes.substr(0, 200), error);
    CHECK(error.find(path + ": byte ") == 0);
    CHECK(error.find(hostile.message) != std::string::npos);
    CHECK(error.size() < 1000);
  }
  std::string dimensions = "1";
  for (int i = 0; i < 64; ++i) dimensions += ",1";
  write_bytes(
      path,
      container(one_tensor(R"("dtype":"U8","shape":[)" + dimensions + R"(],"data_offsets":[0,1])"), "a"));
  CHECK(error_of([&] { SafetensorsFile::open(path); }).find("more than 64 dimensions") != std::string::npos);
}

TEST_CASE("safetensors: what is not a file is refused") {
  const ScratchFolder scratch;
  const auto error = [&](const std::string& name) {
    return error_of([&] { SafetensorsFile::open(scratch / name); });
  };
  CHECK(error("missing").find("cannot open: ") != std::string::npos);
  CHECK(error("").find("is a folder") != std::string::npos);
  // Opening a pipe that no process writes to must not wait.
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  CHECK(error("pipe").find("is not a regular file") != std::string::npos);
}

TEST_CASE("safetensors: a file that is changed while it is open is an error, not the end of the process") {
  const ScratchFolder scratch;
  const std::string data(1 << 20, 'a');
  const std::string bytes =
      container(one_tensor(R"("dtype":"U8","shape":[1048576],"data_offsets":[0,1048576])"), data);
  const auto path = scratch / "t.safetensors";
  const auto sum_of = [](const SafetensorsFile& file) {
    std::size_t sum = 0;
    for (const std::byte b : file.find("t")->data) sum += std::to_integer<std::size_t>(b);
    return sum;
  };
  write_bytes(path, bytes);
  {
    const SafetensorsFile whole = SafetensorsFile::open(path);
    CHECK(sum_of(whole) == data.size() * 'a');
    CHECK(error_of(check_mapped_files).empty());
    std::filesystem::resize_file(path, 8192);
    sum_of(whole);  // it is its pages that are missing, without which the system sends SIGBUS
    CHECK(error_of(check_mapped_files).find(path.string() + ": was changed while it was read") == 0);
  }
  CHECK(error_of(check_mapped_files).empty());  // it is closed
  CHECK(error_of(check_files_once_mapped).find("was changed") != std::string::npos);
  for (const std::string& other : {bytes.substr(0, bytes.size() - 1), std::string(bytes.size(), 'b')}) {
    write_bytes(path, bytes);
    std::filesystem::last_write_time(path, std::filesystem::file_time_type());  // clocks of files are coarse
    const SafetensorsFile file = SafetensorsFile::open(path);
    write_bytes(path, other);
    CHECK(error_of(check_mapped_files).find("was changed") != std::string::npos);
  }
  write_bytes(path, bytes);
  const SafetensorsFile kept = SafetensorsFile::open(path);
  write_safetensors(path, kept.tensors(), {});  // replaced: the old file is there as long as it is open
  CHECK(sum_of(kept) == data.size() * 'a');
  CHECK(error_of(check_mapped_files).empty());
}

struct OwnedTensor {
  Tensor tensor;
  std::string bytes;
};

std::vector<OwnedTensor> random_tensors(std::mt19937_64& random) {
  const Dtype dtypes[] = {Dtype::u8, Dtype::f64,     Dtype::bf16, Dtype::f32,
                          Dtype::f4, Dtype::boolean, Dtype::u16};
  std::vector<OwnedTensor> all(random() % 6);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Tensor& tensor = all[i].tensor;
    tensor.name = "t\u00e9\"" + std::to_string(i);
    tensor.dtype = dtypes[random() % std::size(dtypes)];
    std::uint64_t elements = 1;
    for (std::uint64_t d = random() % 4; d > 0; --d) {
      tensor.shape.push_back(random() % 5);
      elements *= tensor.shape.back();
    }
    if (tensor.dtype == Dtype::f4) {  // whole bytes
      tensor.shape.push_back(2);
      elements *= 2;
    }
    for (std::uint64_t b = elements * bits_of(tensor.dtype) / 8; b > 0; --b) {
      all[i].bytes += static_cast<char>(random());
    }
  }
  for (OwnedTensor& owned : all) owned.tensor.data = std::as_bytes(std::span(owned.bytes));
  return all;
}

TEST_CASE("safetensors: what is written is read back, and is laid out as the format asks") {
  const ScratchFolder scratch;
  std::mt19937_64 random(7);
  for (int round = 0; round < moelab::test::random_runs(300); ++round) {
    const std::vector<OwnedTensor> owned = random_tensors(random);
    std::vector<Tensor> tensors;
    for (const OwnedTensor& one : owned) tensors.push_back(one.tensor);
    const TensorMetadata metadata{{"a", std::to_string(round)}, {"quote\"", "\u00e9\n"}};
    write_safetensors(scratch / "f", tensors, metadata);

    const SafetensorsFile file = SafetensorsFile::open(scratch / "f");
    REQUIRE(file.metadata() == metadata);
    REQUIRE(file.tensors().size() == tensors.size());
    for (const Tensor& tensor : tensors) {
      const Tensor* const found = file.find(tensor.name);
      REQUIRE(found != nullptr);
      REQUIRE(found->dtype == tensor.dtype);
      REQUIRE(found->shape == tensor.shape);
      REQUIRE(bytes_of(*found) == bytes_of(tensor));
      REQUIRE(found->file_offset * 8 % std::max(bits_of(tensor.dtype), 8U) == 0);
    }
    // The header as another JSON reader sees it.
    const std::string bytes = test::read_bytes(scratch / "f");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    REQUIRE(length % 8 == 0);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    REQUIRE(header.size() == tensors.size() + 1);
    for (const Tensor& tensor : tensors) {
      const auto& entry = header.at(tensor.name);
      const auto begin = entry.at("data_offsets").at(0).get<std::size_t>();
      const auto end = entry.at("data_offsets").at(1).get<std::size_t>();
      REQUIRE(entry.at("shape").get<std::vector<std::uint64_t>>() == tensor.shape);
      REQUIRE(entry.at("dtype") == name_of(tensor.dtype));
      REQUIRE(bytes.substr(8 + length + begin, end - begin) == bytes_of(tensor));
    }
  }
  CHECK(scratch.names() == std::vector<std::string>{"f"});
}

TEST_CASE("safetensors: what cannot be written says why and leaves nothing") {
  const ScratchFolder scratch;
  const std::string byte = "x";
  const Tensor good{"t", Dtype::u8, {1}, std::as_bytes(std::span(byte)), 0};
  const auto error = [&](std::vector<Tensor> tensors, const TensorMetadata& metadata) {
    return error_of([&] { write_safetensors(scratch / "f", tensors, metadata); });
  };
  CHECK(error({good, good}, {}).find("the name 't' is taken") != std::string::npos);
  Tensor reserved = good;
  reserved.name = "__metadata__";
  CHECK(error({reserved}, {}).find("is taken") != std::string::npos);
  Tensor misfit = good;
  misfit.shape = {2};
  CHECK(error({misfit}, {}).find("does not fit its 1 bytes") != std::string::npos);
  CHECK(error({good}, {{"a", "\xff"}}).find("is not UTF-8") != std::string::npos);
  CHECK(error_of([&] { write_safetensors("/dev/null/no/f", {}, {}); }).find("cannot make its folder") !=
        std::string::npos);
  CHECK(scratch.names().empty());
}

TEST_CASE("atomic file: whole or not at all") {
  const ScratchFolder scratch;
  const std::string old_bytes = "old";
  const std::string new_bytes = "new and longer";
  const auto as_bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };

  SECTION("without commit nothing changes and nothing is left") {
    write_bytes(scratch / "f", old_bytes);
    { AtomicFile(scratch / "f").write(as_bytes(new_bytes)); }
    CHECK(test::read_bytes(scratch / "f") == old_bytes);
    CHECK(scratch.names().size() == 1);
  }
  SECTION("commit replaces; until then nothing is there that a killed process would leave") {
    const int nameless = ::open((scratch / "").c_str(), O_TMPFILE | O_WRONLY, 0600);
    if (nameless < 0) WARN("this file system has no nameless files; a temporary one has a name");
    write_bytes(scratch / "f", old_bytes);
    AtomicFile file(scratch / "f");
    file.write(as_bytes(new_bytes));
    CHECK(test::read_bytes(scratch / "f") == old_bytes);
    CHECK(scratch.names().size() == (nameless < 0 ? 2U : 1U));
    if (nameless >= 0) ::close(nameless);
    file.commit();
    CHECK(test::read_bytes(scratch / "f") == new_bytes);
    CHECK(scratch.names().size() == 1);
  }
  SECTION("a missing folder is made, and gone again without commit") {
    { AtomicFile(scratch / "new/folders/f").write(as_bytes(new_bytes)); }
    CHECK_FALSE(std::filesystem::exists(scratch / "new"));
    AtomicFile file(scratch / "new/folders/f");
    file.write(as_bytes(new_bytes));
    file.commit();
    CHECK(test::read_bytes(scratch / "new/folders/f") == new_bytes);
  }
  SECTION("a target in a file") {
    write_bytes(scratch / "f", old_bytes);
    CHECK(error_of([&] { AtomicFile(scratch / "f/folder/g"); }).find("cannot make its folder") !=
          std::string::npos);
    CHECK(scratch.names().size() == 1);
  }
  SECTION("a target that is a folder") {
    std::filesystem::create_directory(scratch / "f");
    const std::string error = error_of([&] {
      AtomicFile file(scratch / "f");
      file.commit();
    });
    CHECK(error.find("cannot give the written file its name") != std::string::npos);
    CHECK(scratch.names().size() == 1);
  }
  SECTION("no room to write") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4, limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string error = error_of([&] {
      AtomicFile file(scratch / "f");
      file.write(as_bytes(new_bytes));
      file.commit();
    });
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    std::signal(SIGXFSZ, handler);
    CHECK(error.find((scratch / "f").string() + ": cannot write") == 0);
    CHECK(scratch.names().empty());
  }
}

TEST_CASE("safetensors: an open file that is replaced stays as it was") {
  const ScratchFolder scratch;
  write_bytes(scratch / "f",
              container(one_tensor(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), "old"));
  const SafetensorsFile file = SafetensorsFile::open(scratch / "f");
  write_safetensors(scratch / "f", {}, {});
  CHECK(bytes_of(file.tensors()[0]) == "old");
  CHECK(SafetensorsFile::open(scratch / "f").tensors().empty());
}

}  // namespace
}  // namespace moelab::safetensors_test
