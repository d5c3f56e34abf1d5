#include "hw/calibrate/least_squares.hpp"

#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace moelab {

namespace {

/// The least squares of rows x = 1. nullopt where the rows do not determine x.
std::optional<Eigen::VectorXd> solve(const Eigen::MatrixXd& rows) {
  // Columns of one size, or FLOPs beside seconds would count as dependent.
  const Eigen::RowVectorXd scale = rows.colwise().norm();
  if (scale.minCoeff() <= 0) return std::nullopt;
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(rows * scale.cwiseInverse().asDiagonal());
  if (qr.rank() < rows.cols()) return std::nullopt;
  const Eigen::VectorXd scaled = qr.solve(Eigen::VectorXd::Ones(rows.rows()));
  return Eigen::VectorXd(scaled.array() / scale.transpose().array());
}

/// With the last entry, a fixed cost, left out.
std::optional<Eigen::VectorXd> solve_without_fixed_cost(const Eigen::MatrixXd& rows) {
  const std::optional<Eigen::VectorXd> others = solve(rows.leftCols(rows.cols() - 1));
  if (!others) return std::nullopt;
  Eigen::VectorXd found(rows.cols());
  found << *others, 0;
  return found;
}

template <class Points, class Seconds>
FitQuality quality_of(const Points& points, const Seconds& seconds) {
  FitQuality quality;
  double squares = 0;
  for (const auto& point : points) {
    quality.residuals.push_back(seconds(point) / point.seconds - 1);
    squares += quality.residuals.back() * quality.residuals.back();
  }
  quality.error = std::sqrt(squares / static_cast<double>(points.size()));
  return quality;
}

double intensity(const RooflinePoint& point) {
  return point.flops / point.bytes;
}

/// With points of less than `edge` FLOPs a byte bounded by memory, the others by arithmetic.
std::optional<RooflineFit> fit_divided(std::span<const RooflinePoint> points, double edge) {
  Eigen::MatrixXd rows = Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(points.size()), 3);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const RooflinePoint& p = points[i];
    const auto row = static_cast<Eigen::Index>(i);
    const bool by_memory = intensity(p) < edge;
    rows(row, by_memory ? 1 : 0) = (by_memory ? p.bytes : p.flops) / p.seconds;
    rows(row, 2) = 1 / p.seconds;
  }
  const std::optional<Eigen::VectorXd> all = solve(rows);
  if (!all) return std::nullopt;
  // Noise may give rates or a cost below 0. Without a cost each rate is that of its own points: above 0.
  const bool possible = all->head(2).minCoeff() > 0 && (*all)[2] >= 0;
  const std::optional<Eigen::VectorXd> found = possible ? all : solve_without_fixed_cost(rows);
  if (!found) return std::nullopt;
  RooflineFit fit{1 / (*found)[0], 1 / (*found)[1], (*found)[2], {}};
  fit.quality = quality_of(points, [&](const RooflinePoint& p) {
    return fit.launch + std::max(p.flops / fit.peak, p.bytes / fit.bandwidth);
  });
  return fit;
}

}  // namespace

std::optional<AffineFit> fit_affine(std::span<const CurvePoint> points) {
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(points.size()), 2);
  for (std::size_t i = 0; i < points.size(); ++i) {
    rows(static_cast<Eigen::Index>(i), 0) = points[i].amount / points[i].seconds;
    rows(static_cast<Eigen::Index>(i), 1) = 1 / points[i].seconds;
  }
  if (points.size() < 2) return std::nullopt;
  std::optional<Eigen::VectorXd> found = solve(rows);
  if (found && (*found)[1] < 0) found = solve_without_fixed_cost(rows);
  if (!found) return std::nullopt;
  double slope = (*found)[0], intercept = (*found)[1];
  if (slope <= 0) {  // nothing but a fixed cost: the same least squares, of it alone
    const Eigen::VectorXd per_second = rows.col(1);
    slope = 0;
    intercept = per_second.sum() / per_second.squaredNorm();
  }
  AffineFit fit{intercept, slope > 0 ? 1 / slope : std::numeric_limits<double>::infinity(), {}};
  fit.quality = quality_of(points, [&](const CurvePoint& p) { return intercept + slope * p.amount; });
  return fit;
}

std::optional<RooflineFit> fit_roofline(std::span<const RooflinePoint> points) {
  std::vector<double> edges;
  for (const RooflinePoint& point : points) edges.push_back(intensity(point));
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::optional<RooflineFit> best;
  for (std::size_t i = 1; i < edges.size(); ++i) {
    std::optional<RooflineFit> fit = fit_divided(points, edges[i]);
    if (fit && (!best || fit->quality.error < best->quality.error)) best = std::move(fit);
  }
  return best;
}

RisingValues made_rising(std::span<const double> values, double last_rise) {
  const auto rise_of = [&](std::size_t i) { return i + 1 == values.size() ? last_rise : 0; };
  struct Block {
    double weighted, weight;
    std::size_t count;
    double mean() const { return weighted / weight; }
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const double weight = value > 0 ? 1 / (value * value) : 1;  // changes count relatively
    blocks.push_back({(value - rise_of(i)) * weight, weight, 1});
    while (blocks.size() > 1 && blocks.back().mean() < blocks[blocks.size() - 2].mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().weighted += last.weighted;
      blocks.back().weight += last.weight;
      blocks.back().count += last.count;
    }
  }
  RisingValues rising;
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::size_t place = rising.values.size();
      const double before = values[place];
      rising.values.push_back(block.count == 1 ? before : block.mean() + rise_of(place));
      if (before > 0)
        rising.largest_correction =
            std::max(rising.largest_correction, std::abs(rising.values.back() / before - 1));
    }
  }
  return rising;
}

}  // namespace moelab
