"""Base class of GPU targets, whose kernels run as a grid of thread blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tcopt.support.pipelines.pass_specs import PassSpec, specs
from tcopt.support.pipelines.phases import Phase
from tcopt.targets.launched import LaunchedTarget
from tcopt.targets.pipelines import SIMPLIFY, make_phases

if TYPE_CHECKING:
    from tcopt.dialects.target import GpuTargetAttr

_GRAPH = specs(
    *SIMPLIFY,
    "merge-columns",
    "split-reductions",
    "narrow-contractions",
    "widen-floats",
    "expand-conv-transpose",
    "fold-constants",
    "convert-layout",
    "pack-matmul",
    "pack-dots",
    "winograd",
    "gather-windows",
    "fold-constants",
    "canonicalize",
    "fuse-ops",
)
_KERNEL = specs(
    "lower-intrinsics",
    "expand-borders",
    "compact-buffers",
    "align-storage",
    "lower-blocks",
    "distribute-warp",
    "lower-thread-reductions",
    "inject-virtual-threads",
    "double-buffer",
    "insert-barriers",
    "bind-parallel-loops",
    "vectorize",
    "fuse-multiply-add",
    "unroll-loops",
    "hoist-workspace",
    "split-launches",
    "lower-loop-to-kernel",
    "speculate-loads",
    "promote-registers",
    "pair-row-exchanges",
    "dce",
    "plan-memory",
)


class GpuKind(LaunchedTarget):
    """Base class of GPU kinds, with their target attribute and most of their pipeline."""

    serves_sizes = True

    @property
    def facts(self) -> type[GpuTargetAttr]:  # pyright: ignore[reportIncompatibleVariableOverride]
        from tcopt.dialects.target import GpuTargetAttr

        return GpuTargetAttr

    def pipeline(self, machine: str, accuracy: str, precision: str) -> list[Phase]:
        kernel = (*_KERNEL[:-2], *self.last_passes(), *_KERNEL[-2:])
        return make_phases(self.set_target(machine), _GRAPH, kernel, accuracy, precision)

    def last_passes(self) -> Iterable[PassSpec]:
        """Return extra kernel passes, to run before the final `dce` and `plan-memory`."""
        return ()
