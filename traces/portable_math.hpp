// exp and log of IEEE additions, multiplications and divisions alone, which round the same way everywhere:
// the C library's differ in the last bit from one to the next, and a generated trace must not.
#pragma once

#include <span>

namespace moelab {

/// e^x within 4e-16 relative; 0 below -700. x must not be above 700.
double portable_exp(double x);

/// e^x of each value, none above 88, in place, within 2e-7 relative; below -87 that of -87, the least that is
/// normal.
void portable_exp(std::span<float> values);

/// Natural logarithm of a normal positive number, within 4e-16 relative to max(1, |log x|).
double portable_log(double x);

}  // namespace moelab
