// What a server's front end adds to its engine's times: one process of Python that takes requests in (HTTP,
// chat template, tokenizer) and hands tokens out, one after another. The engine does not wait for it.
#pragma once

#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab::published {

struct FrontEnd {
  double request_s = 0;  // to take one in
  double token_s = 0;    // to hand one out
};
/// Fitted: to the 1000 requests at once of 128 and 4 tokens of three servers that have nothing else to wait
/// for (s007, s016 and s032 of points.csv here: 4.7, 5.4 and 4.2 s; by the fastest), and to the server with
/// most tokens a second of that age (s021: 11,327).
inline constexpr FrontEnd kFrontEnd{.request_s = 3.8e-3, .token_s = 65e-6};

/// When requests reach the engine that are sent at these times, which rise. Seconds.
std::vector<double> taken_in(const std::vector<double>& sent_s, const FrontEnd& front_end);

/// When a user has a request's first and last token; seconds.
struct HandedOut {
  double first_s = 0, last_s = 0;
};
/// Of answered requests, in their order. Between its first and last token the engine has a request's others
/// at even distances.
std::vector<HandedOut> handed_out(const std::vector<RequestTimes>& requests, const FrontEnd& front_end);

}  // namespace moelab::published
