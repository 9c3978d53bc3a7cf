"""Names of what is measured: ours, and other implementations on the same device."""

from __future__ import annotations

OURS = "tcopt"
EAGER = "torch"
COMPILED = "torch.compile"
TRITON = "triton"
FUSED_ATTENTION = "torch sdpa"
PEERS = (EAGER, COMPILED, TRITON, FUSED_ATTENTION)
