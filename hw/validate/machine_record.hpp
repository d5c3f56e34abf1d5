// What a validation found on a machine, in a small file that does not say whose machine it is: for a table of
// many machines. hw/machines/README.md describes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/io/reader.hpp"
#include "hw/validate/prediction_error.hpp"
#include "models/units.hpp"
#include "sim/engine/labelled_graph.hpp"

namespace moelab {

struct Scenario;
struct Validation;
struct ValidationOptions;

inline constexpr const char* kRecordFormat = "moelab-machine-record";
inline constexpr int kRecordVersion = 1;
inline constexpr std::size_t kRecordText = 300;  // bytes that a text has at most

/// Texts are empty where the system does not say, or where there is none.
struct RecordMachine {
  std::string processor;  // model
  int cores = 1;          // that may be used
  std::optional<Bytes> memory;
  std::string kernel;      // family: "Linux 6.18 x86_64"
  std::string governor;    // of the first core's frequency
  std::string filesystem;  // kind, where experts were read from the disk
  std::string gpu, driver;
  bool operator==(const RecordMachine&) const = default;
};

struct RecordProgram {
  std::string moelab;  // version
  std::string compiler;
  std::string libraries;  // the codecs', with their versions
  bool operator==(const RecordProgram&) const = default;
};

struct RecordModel {
  std::string name;
  int layers = 0, experts = 0, top_k = 0, hidden = 0, width = 0, matrices = 0;
  bool operator==(const RecordModel&) const = default;
};

enum class RecordStorage : std::uint8_t {
  paced,     // experts from memory, at a stated pace
  disk,      // as it is
  stand_in,  // host memory, by copies to that of a GPU which the CPU plays
  gpu        // host memory, over the link of a GPU
};
std::string_view to_string(RecordStorage storage);

/// What was run.
struct RecordWork {
  std::string scenario;
  RecordModel model;
  std::vector<std::string> systems;
  std::vector<Bytes> budgets;
  std::uint32_t requests = 1, batch = 1;
  std::uint32_t prompt_tokens = 0, output_tokens = 0;  // of each request; 0: they differ
  RecordStorage storage = RecordStorage::paced;
  std::optional<Pace> pace;  // of paced storage
  std::uint32_t repeats = 1;
  bool probed = true;        // the CPU was timed before each run, and predicted at the speed found
  bool own_profile = true;   // the profile is of this machine, kernel and driver
  std::string profile_date;  // "2026-11-28"; empty: it does not say
  bool operator==(const RecordWork&) const = default;
};

/// What else the machine did.
struct RecordLoad {
  double before = 0;  // average number of programs that wanted to run, of the minute before
  // Cores that other programs took during runs, in the mean of points and at most. Nothing where runs were
  // too short to tell.
  std::optional<double> others_mean, others_most;
  double speed_change = 1;  // see Disturbance, of all points
  bool operator==(const RecordLoad&) const = default;
};

struct RecordOperation {
  OpKind kind;
  ErrorSummary error;
  bool operator==(const RecordOperation&) const = default;
};

/// All budgets and systems at a codec and a number of threads. Errors are of points that were not too noisy,
/// and are left out where there are none.
struct RecordGroup {
  std::string codec;          // empty: experts are not compressed
  std::uint32_t threads = 0;  // that decompress; 0: none do
  std::uint64_t points = 0, too_noisy = 0;
  std::optional<ErrorSummary> layers, tpot;
  Ordering ordering;
  std::vector<RecordOperation> operations;
  bool operator==(const RecordGroup&) const = default;
};

struct MachineRecord {
  std::string date;  // UTC, "2026-11-28"
  RecordMachine machine;
  RecordProgram program;
  RecordWork work;
  RecordLoad load;
  std::vector<RecordGroup> groups;
  bool same_work = true;  // hits, bytes and operations were equal
  bool operator==(const MachineRecord&) const = default;
};

/// Whether it is a day of the calendar, such as "2026-11-28".
bool is_day(std::string_view text);

/// "Linux 6.18.44-name x86_64" -> "Linux 6.18 x86_64": without what names a build, which may name its owner.
std::string kernel_family(const std::string& kernel);

/// Of a validation that has ended, by the program of this version. `scenario` and `options` are those that it
/// was given. Figures have four digits that count, the memory two.
MachineRecord machine_record(const Scenario& scenario, const ValidationOptions& options,
                             const Validation& validation, const std::string& version);

/// JSON, with a line's end; reads back as the same.
std::string machine_record_json(const MachineRecord& record);

/// Throws InputError with everything that is wrong, each with file and line: unknown and missing keys, other
/// versions of the format, numbers that are not finite or cannot be.
MachineRecord read_machine_record(const std::string& path);
/// `name` stands for the file in messages.
MachineRecord read_machine_record(const std::string& name, const std::string& text);

}  // namespace moelab
