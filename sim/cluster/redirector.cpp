#include "sim/cluster/redirector.hpp"

#include <algorithm>

namespace moelab {

class Redirector::Source final : public RequestSource {
 public:
  explicit Source(Redirector& redirector) : redirector_(redirector) {}

  std::span<const Arrival> take(double now) override {
    redirector_.assign_until(now);
    taken_.swap(waiting);
    waiting.clear();
    running_ += taken_.size();
    return taken_;
  }
  // The next request may go to any server.
  std::optional<double> next_time() const override {
    if (redirector_.next_ == redirector_.requests_.size()) return std::nullopt;
    return redirector_.requests_[redirector_.next_].asks.arrival_s;
  }
  void finished(std::uint32_t number, double arrival_s, double now) override {
    redirector_.assign_until(now);  // what came before is judged by how it was then
    --running_;
    redirector_.latencies_[redirector_.requests_[number].server].push_back(now - arrival_s);
  }

  void lost(std::uint32_t) override { --running_; }
  // In the order of arrival, as they were taken.
  void give_back(const Arrival& arrival) override {
    const auto behind = std::find_if(waiting.begin(), waiting.end(),
                                     [&](const Arrival& other) { return other.number > arrival.number; });
    waiting.insert(behind, arrival);
    --running_;
  }

  std::size_t load() const { return waiting.size() + running_; }
  std::vector<Arrival> waiting;

 private:
  Redirector& redirector_;
  std::vector<Arrival> taken_;
  std::size_t running_ = 0;
};

Redirector::Redirector(std::vector<Request> requests, std::size_t servers, Redirection way)
    : requests_(std::move(requests)),
      way_(way),
      latencies_(servers),
      up_(servers, 1),
      known_up_(servers, 1),
      asked_(servers, 0),
      delayed_(servers, 0) {
  for (const Request& request : requests_) ++asked_[request.server];
  for (std::size_t i = 0; i < servers; ++i) sources_.push_back(std::make_unique<Source>(*this));
}

Redirector::~Redirector() = default;

RequestSource& Redirector::source(std::size_t server) {
  return *sources_[server];
}

std::size_t Redirector::choose(std::size_t own) const {
  std::size_t to = own;
  if (way_ != Redirection::least_loaded) return to;
  for (std::size_t server = 0; server < sources_.size(); ++server)
    if (known_up_[server] > known_up_[to] || (known_up_[server] == known_up_[to] && known_up_[to] != 0 &&
                                              sources_[server]->load() < sources_[to]->load()))
      to = server;
  return to;
}

void Redirector::assign_until(double now) {
  for (; next_ < requests_.size() && requests_[next_].asks.arrival_s <= now; ++next_) {
    const Request& request = requests_[next_];
    const std::size_t to = choose(request.server);
    if (to != request.server) ++redirected_;
    if (!up_[to]) ++delayed_[request.server];
    sources_[to]->waiting.push_back({static_cast<std::uint32_t>(next_), request.asks});
  }
}

}  // namespace moelab
