// What a server's front end adds to its engine's times: one process of Python that takes requests in (HTTP,
// chat template, tokenizer), in turns, and hands tokens out, one after another. The engine does not wait for
// it.
#pragma once

#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab::published {

struct FrontEnd {
  double request_s = 0;  // to take one in
  double token_s = 0;    // to hand one out
};
/// Fitted: to the duration of 1000 requests at once of 128 and 4 tokens (s007 of points.csv here: 4.7 s, of
/// which the engine's steps are 3.2), and to a token's time on the server with most tokens a second of that
/// age (s021: 11,327).
inline constexpr FrontEnd kFrontEnd{.request_s = 1.5e-3, .token_s = 50e-6};

/// When requests reach the engine that are sent at these times, which rise. Seconds. Python's event loop
/// gives every request that is being taken in a turn, so that they share the process evenly: of many that
/// come at once none is in before nearly all are.
std::vector<double> taken_in(const std::vector<double>& sent_s, const FrontEnd& front_end);

/// When a user has a request's first and last token; seconds.
struct HandedOut {
  double first_s = 0, last_s = 0;
};
/// Of answered requests, in their order. Between its first and last token the engine has a request's others
/// at even distances.
std::vector<HandedOut> handed_out(const std::vector<RequestTimes>& requests, const FrontEnd& front_end);

}  // namespace moelab::published
