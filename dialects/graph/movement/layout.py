"""Blocked layouts, and the op that converts between layouts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    as_extent,
    element_type,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.movement.shape import ReshapeOp
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import ceildiv

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
"""Letters of spatial dimensions in layouts, by their number."""

_PART = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")


@dataclass(frozen=True)
class Layout:
    """A storage order such as `NCHW` or `NCHW16c`.

    A capital letter is a dimension. A number with a small letter is an inner block of that
    dimension, whose capital then counts blocks. Extents are rounded up to whole blocks.
    """

    parts: tuple[tuple[str, int], ...]
    """One entry per stored axis: dimension letter and block extent, 0 for an outer axis."""

    @staticmethod
    @lru_cache(maxsize=256)
    def parse(text: str) -> Layout:
        """Parse a layout; VerifyException if it is malformed."""
        parts: list[tuple[str, int]] = []
        end = 0
        for match in _PART.finditer(text):
            if match.start() != end:
                break
            end = match.end()
            outer, extent, inner = match.groups()
            parts.append((outer, 0) if outer else (inner.upper(), int(extent)))
        outers = [letter for letter, block in parts if block == 0]
        inners = [letter for letter, block in parts if block]
        if end != len(text) or not parts or len(set(outers)) != len(outers):
            raise VerifyException(f"'{text}' is not a layout")
        if len(set(inners)) != len(inners) or not set(inners) <= set(outers):
            raise VerifyException(f"'{text}' blocks a dimension twice or one it does not have")
        return Layout(tuple(parts))

    @property
    def letters(self) -> tuple[str, ...]:
        """The dimensions, sorted."""
        return tuple(sorted(letter for letter, block in self.parts if block == 0))

    def block(self, letter: str) -> int:
        """Return the block extent of a dimension, 1 if it is not blocked."""
        return max([block for name, block in self.parts if name == letter and block], default=1)

    def extents(self, shape: Sequence[int]) -> dict[str, int]:
        """Return the extent of each dimension of a stored shape, in whole blocks."""
        if len(shape) != len(self.parts):
            raise VerifyException(f"rank {len(shape)} does not fit a layout of {len(self.parts)}")
        result = dict.fromkeys(self.letters, 1)
        for (letter, block), extent in zip(self.parts, shape, strict=True):
            if block not in (0, extent):
                raise VerifyException(f"a block of size {block} has extent {extent}")
            result[letter] *= extent
        return result

    def stored_shape(self, extents: dict[str, int]) -> tuple[int, ...]:
        """Return the stored shape for given extents of the dimensions."""
        return tuple(
            block or as_extent(ceildiv(extents[letter], self.block(letter)))
            for letter, block in self.parts
        )

    def moving_parts(self, shape: Sequence[int], blocks: dict[str, int]) -> list[tuple[str, bool]]:
        """Return the stored axes with extents above 1, with dimensions split into outer and inner
        blocks."""
        result: list[tuple[str, bool]] = []
        for (letter, block), extent in zip(self.parts, shape, strict=True):
            size = blocks[letter]
            if block or size == 1 or self.block(letter) > 1:
                parts = [(letter, bool(block), extent)]
            else:
                parts = [(letter, False, extent // size), (letter, True, size)]
            result += [(name, inner) for name, inner, count in parts if count > 1]
        return result


@irdl_op_definition
class LayoutTransformOp(GraphOp):
    """Convert x from layout `src` to layout `dst`.

    Incomplete blocks are padded with zeros. From a blocked to a plain layout, the result type
    determines how much of the last block is data.
    """

    name = "graph.layout_transform"

    x = operand_def(TensorType)
    src = prop_def(StringAttr)
    dst = prop_def(StringAttr)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        *,
        src: str,
        dst: str,
        shape: Sequence[int] | None = None,
    ):
        """`shape` is the result's, by default the one that holds all of x."""
        value = SSAValue.get(x)
        if shape is None:
            shape = Layout.parse(dst).stored_shape(Layout.parse(src).extents(shape_of(value)))
        super().__init__(
            [value],
            {"src": StringAttr(src), "dst": StringAttr(dst)},
            tensor(shape, element_type(value)),
        )
        self.infer()

    @property
    def layouts(self) -> tuple[Layout, Layout]:
        """The source and destination layouts."""
        return Layout.parse(self.src.data), Layout.parse(self.dst.data)

    def infer(self) -> Sequence[AnyTensor]:
        """Return the result's shape with the operand's element type."""
        src, dst = self.layouts
        if src.letters != dst.letters:
            raise VerifyException(f"{self.src.data} and {self.dst.data} differ in dimensions")
        before, after = src.extents(shape_of(self.x)), dst.extents(self.shape)
        for letter in src.letters:
            slack = max(src.block(letter), dst.block(letter))
            if abs(before[letter] - after[letter]) >= slack:
                raise VerifyException(
                    f"dimension {letter} has {before[letter]} elements before "
                    f"and {after[letter]} after"
                )
        return (tensor(self.shape, element_type(self.x)),)

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if the layouts are equal."""
        return self.x if self.src == self.dst else None

    def simplify(self) -> Sequence[Operation] | None:
        """Merge two transforms, unless elements are cropped between them; replace one that only
        moves axes of extent 1 by a reshape."""
        if self._keeps_order():
            return (ReshapeOp(self.x, self.shape),)
        inner = self.x.owner
        if not isinstance(inner, LayoutTransformOp):
            return None
        first, second = inner.layouts
        before, middle = first.extents(shape_of(inner.x)), second.extents(inner.shape)
        if any(middle[letter] < before[letter] for letter in before):
            return None
        after = self.layouts[1].extents(self.shape)
        slack = {d: max(first.block(d), self.layouts[1].block(d)) for d in before}
        if any(abs(before[d] - after[d]) >= slack[d] for d in before):
            return None
        src, dst = inner.src.data, self.dst.data
        return (LayoutTransformOp(inner.x, src=src, dst=dst, shape=self.shape),)

    def _keeps_order(self) -> bool:
        """Whether the order of elements in memory does not change."""
        src, dst = self.layouts
        before, after = shape_of(self.x), self.shape
        if src.extents(before) != dst.extents(after):
            return False
        blocks = {d: {src.block(d), dst.block(d)} - {1} for d in src.letters}
        if any(len(sizes) > 1 for sizes in blocks.values()):
            return False
        block = {d: max(sizes, default=1) for d, sizes in blocks.items()}
        return src.moving_parts(before, block) == dst.moving_parts(after, block)

    def compute(self, x: Array) -> Array:
        """Evaluate with numpy: to plain dimensions, pad or crop, to blocks."""
        src, dst = self.layouts
        letters = src.letters
        plain = x.transpose(_plain_order(src)).reshape([src.extents(x.shape)[d] for d in letters])
        goal = [dst.extents(self.shape)[d] for d in letters]
        widths = [(0, max(after - n, 0)) for after, n in zip(goal, plain.shape, strict=True)]
        if any(after for _, after in widths):
            plain = np.pad(plain, widths)
        plain = plain[tuple(slice(0, extent) for extent in goal)]
        split: list[int] = []
        for letter, extent in zip(letters, goal, strict=True):
            block = dst.block(letter)
            split += [extent // block, block] if block > 1 or (letter, 1) in dst.parts else [extent]
        return plain.reshape(split).transpose(np.argsort(_plain_order(dst)))

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that computes the index of each dimension from the destination, and
        reads it in the source."""
        src, dst = self.layouts
        before, after = src.extents(x.shape), dst.extents(self.shape)
        inside = all(after[letter] <= before[letter] for letter in src.letters)

        def body(*axes: te.Axis) -> te.Expr:
            place: dict[str, Any] = dict.fromkeys(dst.letters, 0)
            for (letter, block), axis in zip(dst.parts, axes, strict=True):
                place[letter] = axis * (1 if block else dst.block(letter)) + place[letter]
            at: list[Any] = []
            for letter, block in src.parts:
                divisor = src.block(letter)
                if block:
                    at.append(place[letter] % block)
                else:
                    at.append(place[letter] // divisor if divisor > 1 else place[letter])
            return x[tuple(at)] if inside else x.read(tuple(at), default=0)

        return te.compute(self.shape, body, name="layout_transform")


def _plain_order(layout: Layout) -> list[int]:
    """Return the stored axes sorted by dimension, outer before inner."""
    axes = range(len(layout.parts))
    return sorted(axes, key=lambda axis: (layout.parts[axis][0], layout.parts[axis][1] > 0))
