// What a run that serves from a paged KV cache was like over time, as rows of a terminal.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "sim/run_result.hpp"

namespace moelab {

/// Of a sample: something that holds throughout it.
using SampleFigure = std::function<double(const ServingSample&)>;

/// Means of a figure over `columns` stretches of equal length, from the begin of the series to its end. Not
/// for a series that takes no time.
std::vector<double> over_time(const ServingSeries& series, std::size_t columns, const SampleFigure& figure);

/// For each system that has a series: tokens per second, use of the KV cache, requests that wait or are
/// swapped, swap traffic and residency level, each a row of columns as high as it was; rows in which nothing
/// ever was are left out. "" where no system has a series.
std::string serving_picture(const std::vector<RunResult>& results);

}  // namespace moelab
