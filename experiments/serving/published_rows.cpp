// Published serving benchmarks beside predictions. usage: published_rows [POINTS.csv ...] [--out FILE.json]
// [--format table|json]. README.md here says what the columns mean and how far the predictions are off.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/serving/published_table.hpp"
#include "experiments/world/arguments.hpp"
#include "experiments/world/world_document.hpp"
#include "models/input_error.hpp"
#include "traces/atomic_file.hpp"

namespace moelab::published {
namespace {

std::vector<ServingPoint> points_of_files(const std::vector<std::string>& files) {
  std::vector<ServingPoint> points;
  for (const std::string& file : files)
    for (ServingPoint& point : read_serving_points(file)) points.push_back(std::move(point));
  if (points.empty())
    throw InputError(files.front(), "has no published run; expected a row or more under its header");
  return points;
}

int run(world::Arguments arguments) {
  if (arguments.files.empty()) arguments.files = {MOELAB_SOURCE_DIR "/experiments/serving/points.csv"};
  world::check_result_file(arguments.out, arguments.files);
  const std::vector<ServingPoint> points = points_of_files(arguments.files);
  std::optional<AtomicFile> result;  // opened now: a place that cannot be written to is said before the work
  if (!arguments.out.empty()) result.emplace(arguments.out);
  const std::vector<PredictedServing> rows = predicted_serving(points, std::thread::hardware_concurrency());
  const std::string document = world::document_text(serving_document(rows, arguments.files));
  if (result) {
    result->write(std::as_bytes(std::span(document)));
    result->commit();
  }
  std::fputs(arguments.json ? document.c_str() : serving_text(rows).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace moelab::published

int main(int argc, char** argv) {
  try {
    return moelab::published::run(moelab::world::read_arguments(argc, argv, "experiments/serving/run.sh",
                                                                {.writes = true, .fits = false}));
  } catch (const std::exception& error) {
    return moelab::world::say_failure(error);
  }
}
