// What is published of models' routing where no recording is at hand: hit rates, reuse, popularity.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/law/law_shape.hpp"

namespace moelab {

enum class FigureKind : std::uint8_t {
  reuse,    // share of a token's experts that the token before used
  lru,      // hit rate of a cache of `places` of each layer's experts
  lfu,      // the same
  popular,  // share of all uses that the busiest `places` of the experts have
};

struct PublishedFigure {
  FigureKind kind = FigureKind::reuse;
  double places = 0;           // share of a layer's experts; 0 for reuse
  std::uint32_t tokens = 512;  // of a sequence
  bool cold = true;            // caches are empty at the beginning of each sequence, not of the first alone
  double value = 0;            // 0 to 1
  double within = 0.01;        // how near a fit is to come: figures count by the square of its inverse
  /// Counts for the model's law and not for the rule, in which all models' figures were counted alike.
  bool law_only = false;
  std::string source;  // names one of PublishedRouting::sources
};

/// One model's.
struct ModelFigures {
  std::string model;  // as in configs/models, or the authors' name of one that is not there
  RoutingShape shape;
  bool in_rule = true;  // the rule is fitted to it; false: only a law is
  std::vector<PublishedFigure> figures;
};

struct FigureSource {
  std::string name, cite;
};

struct PublishedRouting {
  std::vector<FigureSource> sources;
  std::vector<ModelFigures> models;
};

/// configs/figures/routing.yaml or another, by name or path. Throws InputError with everything that is wrong.
PublishedRouting load_published_routing(const std::string& name);

/// "LRU, 25 % of the experts cached".
std::string figure_title(const PublishedFigure& figure);

/// The same figures of requests drawn from the law: values[i] is that of figures[i]. `popular` is of the
/// law's popularity, not of the few requests drawn: about `tokens` for each kind of sequences.
std::vector<double> drawn_figures(const RoutingLaw& law, const std::vector<PublishedFigure>& figures,
                                  std::uint64_t seed, std::uint64_t tokens = 6144);

}  // namespace moelab
