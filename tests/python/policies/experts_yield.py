"""The KV cache comes first: see policies/pressure/experts_yield.cpp."""

import moelab


class ExpertsYield(moelab.PressurePolicy):
    """experts get what the KV cache of all requests that run at once leaves"""

    name = "my-experts-yield"

    def requests(self, terms):
        return len(terms.kv_bytes)
