"""Experts stay: see policies/residency/fixed_residency.cpp."""

import moelab


class FixedResidency(moelab.ResidencyPolicy):
    """experts stay where they were put"""

    name = "my-fixed-residency"

    def adjust(self, state, shape, split):
        pass
