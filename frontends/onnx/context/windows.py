"""Window attributes of convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tcopt.dialects.graph.core.types import as_extent
from tcopt.dialects.graph.movement.pad import PadOp
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.support.arithmetic.sizes import is_fixed, maximum

_AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True)
class WindowAttributes:
    """Validated kernel_shape, strides, dilations, pads and auto_pad of a node.

    `stated_pads` has the pads at the start of each dimension, then those at the end.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    stated_pads: tuple[int, ...]
    auto_pad: str

    @staticmethod
    def of(ctx: NodeContext, kernel: Sequence[int]) -> WindowAttributes:
        """Read and check a node's attributes.

        Raises:
            ImportModelError: a list has a wrong length, or a stride or dilation is below 1.
        """
        rank = len(kernel)
        ctx.check(all(k > 0 for k in kernel), f"kernel {list(kernel)} has an extent below 1")
        strides = ctx.get_ints("strides") or [1] * rank
        dilations = ctx.get_ints("dilations") or [1] * rank
        pads = ctx.get_ints("pads") or [0] * 2 * rank
        for name, values, count in (
            ("strides", strides, rank),
            ("dilations", dilations, rank),
            ("pads", pads, 2 * rank),
        ):
            ctx.check(len(values) == count, f"{name} {values} should have {count} entries")
            ctx.check(name == "pads" or min(values) > 0, f"{name} {values} has an entry below 1")
        auto_pad = ctx.get_string("auto_pad", "NOTSET") or "NOTSET"
        ctx.check(auto_pad in _AUTO_PADS, f"auto_pad cannot be {auto_pad!r}")
        if auto_pad != "NOTSET" and any(pads):
            ctx.malformed(f"pads {pads} and auto_pad {auto_pad} exclude each other")
        return WindowAttributes(
            tuple(kernel), tuple(strides), tuple(dilations), tuple(pads), auto_pad
        )

    @property
    def spans(self) -> tuple[int, ...]:
        """Extents of the dilated kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def pads(self, extents: Sequence[int]) -> list[int]:
        """Return the pads for an input with the given spatial extents, which may be sizes."""
        if not self.auto_pad.startswith("SAME"):
            return list(self.stated_pads)
        small: list[int] = []
        large: list[int] = []
        for extent, stride, span in zip(extents, self.strides, self.spans, strict=True):
            count = -(-extent // stride)
            total = as_extent(maximum((count - 1) * stride + span - extent, 0))
            small.append(total // 2)
            large.append(total - total // 2)
        return small + large if self.auto_pad == "SAME_UPPER" else large + small

    def padded(
        self, ctx: NodeContext, x: SSAValue, value: SSAValue | None = None
    ) -> tuple[SSAValue, list[int]]:
        """Return data and the pads of its windows.

        Pads that depend on sizes become a pad of the data.

        Args:
            value: the scalar to pad with, by default 0.
        """
        pads = self.pads(ctx.shape(x)[2:])
        if is_fixed(pads):
            return x, pads
        rank = len(self.kernel)
        pad = PadOp(x, value, low=(0, 0, *pads[:rank]), high=(0, 0, *pads[rank:]))
        return ctx.emit(pad), [0] * (2 * rank)
