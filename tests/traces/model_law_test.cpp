// Which law a model gets, how well it is said to be known, and the rule behind those of which nothing is
// known.
#include "traces/law/model_law.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"
#include "tests/traces/random_laws.hpp"
#include "traces/law/figures_fit.hpp"

namespace moelab::model_law_test {
namespace {

using namespace test;
using Catch::Matchers::Contains;

/// The figures of requests of 255 tokens, one after the other, as zipmoe-orin's: reuse, then LRU with places
/// for 25, 50 and 75 % of the experts.
std::vector<double> drawn(const RoutingLaw& law, std::uint64_t seed) {
  std::vector<PublishedFigure> figures(4);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    figures[i].kind = i == 0 ? FigureKind::reuse : FigureKind::lru;
    figures[i].places = 0.25 * static_cast<double>(i);
    figures[i].tokens = 255;
    figures[i].cold = false;
  }
  return drawn_figures(law, figures, seed, 2040);
}

}  // namespace

TEST_CASE("DeepSeek-V2-Lite's law gives the reuse and hit rates that are published of it") {
  const ModelLaw own = law_of_model(load_architecture("deepseek-v2-lite"));
  CHECK(own.file == "configs/laws/deepseek-v2-lite.yaml");
  for (const std::uint64_t seed : {1, 2}) {
    const std::vector<double> figures = drawn(own.law, seed);
    INFO(figures[0] << " " << figures[1] << " " << figures[2]);
    CHECK(std::abs(figures[0] - 0.26) <= 0.02);
    CHECK(std::abs(figures[1] - 0.44) <= 0.02);
    CHECK(std::abs(figures[2] - 0.70) <= 0.02);
  }
}

TEST_CASE("published laws draw the figures of LRU that they were fitted to, within what they say") {
  const PublishedRouting published = load_published_routing("routing");
  std::size_t laws = 0;
  for (const ModelFigures& model : published.models) {
    const std::vector<std::string> names = config_names("laws");
    if (std::find(names.begin(), names.end(), model.model) == names.end()) continue;
    const RoutingLaw law = load_routing_law(model.model);
    if (law.basis != LawBasis::published) continue;
    ++laws;
    INFO(model.model);
    CHECK(law.experts == model.shape.experts);
    CHECK(law.top_k == model.shape.top_k);
    CHECK(law.layers.size() == model.shape.layers);
    const RoutingLaw few = resized(law, 6, 0, law.experts, law.top_k);
    const std::vector<double> values = drawn_figures(few, model.figures, 3, 2048);
    for (std::size_t i = 0; i < values.size(); ++i) {
      INFO(figure_title(model.figures[i]) << ": " << values[i]);
      // 0.02: what the few requests of a test differ from those of the fit by.
      if (model.figures[i].kind == FigureKind::lru)
        CHECK(std::abs(values[i] - model.figures[i].value) <= law.points + 0.02);
    }
  }
  CHECK(laws >= 8);
}

TEST_CASE("every model of the catalogue has a law at its sizes that says what it stands on", "[plain]") {
  for (const std::string& name : config_names("models")) {
    const Architecture model = load_any_architecture(name);
    if (!model.is_moe()) continue;
    INFO(name);
    const ModelLaw own = law_of_model(model);
    const RoutingShape shape = routing_shape(model);
    CHECK(own.law.layers.size() == shape.layers);
    CHECK(own.law.experts == shape.experts);
    CHECK(own.law.top_k == shape.top_k);
    CHECK(own.law.has_gates());
    CHECK(own.law.has_encoder() == model.has_encoder());
    const std::vector<std::string> laws = config_names("laws");
    if (std::find(laws.begin(), laws.end(), name) == laws.end()) {
      CHECK(own.file.empty());
      CHECK_THAT(law_title(own.law), Contains("by rule (±6 points)"));
    } else {
      CHECK(own.file == "configs/laws/" + name + ".yaml");
      const LawBasis basis = own.law.basis;
      CHECK((basis == LawBasis::measured || basis == LawBasis::published));
    }
    // What a law's file says is what the program drew from: by rule too.
    Problems problems;
    CHECK(same_law(read_routing_law(YamlDocument::from_text("l", to_yaml(own.law), problems), problems),
                   own.law));
  }
}

TEST_CASE("a model whose shape was changed gets the rule, not the law of the one it was") {
  Architecture model = load_architecture("deepseek-v2-lite");
  for (Layer& layer : model.layers)
    if (layer.feed_forward.kind == FeedForward::Kind::moe) layer.feed_forward.top_k = 4;
  CHECK(law_of_model(model).law.basis == LawBasis::rule);
}

TEST_CASE("the rule's weights leave noise for any shape, and grow with what it says they grow with") {
  Random random(1, 2, 3);
  for (int i = 0; i < 2000; ++i) {
    RoutingShape shape;
    shape.layers = between(random, 1, 8);
    shape.encoder_layers = between(random, 0, shape.layers);
    shape.experts = between(random, 1, 300);
    shape.top_k = between(random, 1, shape.experts);
    shape.apart = random.uniform();
    const LawTerms terms = terms_by_rule(shape);
    CHECK(terms.bias >= 0);
    CHECK(terms.prompt >= 0);
    CHECK(terms.spans >= 0);
    const RoutingLaw law = law_of_terms(shape, terms);
    CHECK(law.layers.size() == shape.layers);
    for (const LayerLaw& layer : law.layers) {
      CHECK(std::accumulate(layer.spans.begin(), layer.spans.end(), layer.domain + layer.prompt) < 1);
      CHECK(std::is_sorted(layer.bias.rbegin(), layer.bias.rend()));
      CHECK(std::abs(std::accumulate(layer.bias.begin(), layer.bias.end(), 0.0)) < 1e-6 * shape.experts);
    }
    RoutingShape more = shape;
    more.apart = std::min(1.0, shape.apart + 0.1);
    CHECK(terms_by_rule(more).bias <= terms.bias);
  }
}

TEST_CASE("the rule is the least squares of its models' terms") {
  // Terms that are a rule of their own come out as that rule.
  const RoutingRule made{{0.7, -2, -0.5}, {0.4, -1, -0.3}, {0.5, -2, -0.2}};
  Random random(5, 6, 7);
  std::vector<RoutingShape> shapes;
  std::vector<LawTerms> terms;
  for (int i = 0; i < 12; ++i) {
    RoutingShape shape;
    shape.layers = 4;
    shape.experts = between(random, 40, 100);
    shape.top_k = between(random, 1, 8);
    shape.apart = i % 2 == 0 ? 0 : 0.3 * random.uniform();
    shapes.push_back(shape);
    terms.push_back(made.terms(shape));
  }
  const RoutingRule found = fit_rule(shapes, terms);
  for (std::size_t i = 0; i < RoutingRule::kFeatures; ++i) {
    CHECK(std::abs(found.bias[i] - made.bias[i]) < 1e-6);
    CHECK(std::abs(found.prompt[i] - made.prompt[i]) < 1e-6);
    CHECK(std::abs(found.spans[i] - made.spans[i]) < 1e-6);
  }
  CHECK_THROWS_AS(fit_rule({shapes[0], shapes[0]}, {terms[0], terms[0]}), InputError);
}

TEST_CASE("fitted terms are those that figures were drawn with") {
  ModelFigures model;
  model.model = "made";
  model.shape = {.layers = 4, .encoder_layers = 0, .experts = 16, .top_k = 2, .apart = 0};
  for (const auto& [kind, places] : {std::pair{FigureKind::lru, 0.25}, std::pair{FigureKind::lfu, 0.25},
                                     std::pair{FigureKind::popular, 0.25}}) {
    PublishedFigure figure;
    figure.kind = kind;
    figure.places = places;
    figure.tokens = 256;
    model.figures.push_back(figure);
  }
  const LawTerms made{.bias = 0.5, .prompt = 0.25, .spans = 0.3};
  const std::vector<double> values = drawn_figures(law_of_terms(model.shape, made), model.figures, 9);
  for (std::size_t i = 0; i < values.size(); ++i) model.figures[i].value = values[i];
  const FiguresFit fit = fit_terms(model, 9);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(fit.drawn[i] - values[i]) < 0.01);
  CHECK(std::abs(fit.terms.bias - made.bias) < 0.05);
  CHECK(std::abs(fit.terms.prompt - made.prompt) < 0.06);
}

TEST_CASE("a law that is moved has hit rates higher or lower by as much") {
  const RoutingLaw deepseek = load_routing_law("deepseek-v2-lite");
  const double before = drawn(deepseek, 4)[1];
  for (const double by : {-0.06, 0.06}) {
    const RoutingLaw moved = law_moved(deepseek, by);
    CHECK(moved.basis == LawBasis::fitted);
    const double after = drawn(moved, 4)[1];
    INFO(before << " " << after);
    CHECK(std::abs(after - before - by) < 0.02);
  }
  CHECK_NOTHROW(law_moved(deepseek, 1));  // further than any law reaches
}

TEST_CASE("leave-one-out: 12 of the rule's 15 models are within 6 points of LRU", "[long]") {
  const RuleTest test = leave_one_out(load_published_routing("routing"), 1);
  std::size_t members = 0, near = 0;
  double squares = 0;
  for (const LeftOut& left : test.left_out) {
    if (!left.model.in_rule) continue;
    double worst = 0;
    for (std::size_t i = 0; i < left.own.size(); ++i)
      worst = std::max(worst, std::abs(left.own[i] - left.rule[i]));
    ++members;
    near += worst <= 0.065;
    squares += worst * worst;
    INFO(left.model.model << " " << worst);
    CHECK(worst < 0.12);
    // The constants in the program are those of this fit.
    const LawTerms fitted = test.rule.terms(left.model.shape), shipped = terms_by_rule(left.model.shape);
    CHECK(std::abs(fitted.bias - shipped.bias) < 0.05);
    CHECK(std::abs(fitted.prompt - shipped.prompt) < 0.05);
    CHECK(std::abs(fitted.spans - shipped.spans) < 0.06);
  }
  CHECK(members == 15);
  CHECK(near >= 12);
  CHECK(std::sqrt(squares / static_cast<double>(members)) <= kRulePoints);
}

TEST_CASE("files of figures and laws are refused with place and nearest name") {
  CHECK_THROWS_WITH(load_published_routing("ruting"), Contains("routing"));
  const auto refusal = [](const std::string& text) {
    Problems problems;
    try {
      read_routing_law(YamlDocument::from_text("l.yaml", text, problems), problems);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  std::string text = to_yaml(load_routing_law("deepseek-v2-lite"));
  const std::size_t known = text.find("known: published");
  REQUIRE(known != std::string::npos);
  std::string typo = text;
  typo.replace(known, 16, "known: publishd ");
  CHECK_THAT(refusal(typo), Contains("l.yaml:") && Contains("published"));
  std::string without = text;
  without.erase(known, 17);
  CHECK_THAT(refusal(without), Contains("give both or none"));
  std::string points = text;
  points.replace(points.find("points: "), 8, "points: 2");
  CHECK_THAT(refusal(points), Contains("points"));
}

}  // namespace moelab::model_law_test
