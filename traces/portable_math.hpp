// exp and log of IEEE additions, multiplications and divisions alone, which round the same way everywhere:
// the C library's differ in the last bit from one to the next, and a generated trace must not.
#pragma once

namespace moelab {

/// e^x within 4e-16 relative; 0 below -700. x must not be above 700.
double portable_exp(double x);

/// Natural logarithm of a normal positive number, within 4e-16 relative to max(1, |log x|).
double portable_log(double x);

}  // namespace moelab
