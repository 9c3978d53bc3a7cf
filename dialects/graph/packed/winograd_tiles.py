"""Common base of Winograd convolutions, independent of the layout of channels."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import FusionKind, Int, Ints, integer, ints, values_of
from tcopt.dialects.graph.core.forms import WINOGRAD
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import Array, element_type, shape_of
from tcopt.dialects.graph.core.windows import Window, view_windows, window_properties
from tcopt.dialects.graph.elementwise.base import same_element_type
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.winograd_tables import Matrix, Tables, phase_tables, tiles_of

ONE = integer(1)

WORD = 32
"""Number of bits of integer sums."""


def tables_for(
    tile: Int, taps: int, phases: int = 1, start: int = 0, *, whole: bool = False
) -> Tables:
    """Return the matrices of a tile, of integers if `whole`; VerifyException if there are none."""
    extent, known = tile.value.data, tiles_of(taps, whole)
    if extent not in known:
        listed = ", ".join(map(str, known))
        raise VerifyException(f"tile = {extent} is not one of {listed}")
    return phase_tables(extent, taps, phases, start, whole=whole)


def table_row(
    table: Matrix,
    row: te.Index,
    term: Callable[[int], te.Expr],
    order: Sequence[int],
) -> te.Expr:
    """Return the product of a row of a table with `term(0), term(1), ...`, summed in `order`."""
    return reduce(add, [te.scale(term(k), table, row, k) for k in order])


def input_order(tables: Tables) -> Sequence[int]:
    """Return the order in which rows of the input table are summed."""
    # The last rows of the table are ones: starting there minimises multiplications.
    return range(tables.reach - 1, -1, -1)


def exact_division(divisor: int) -> tuple[int, int]:
    """Return a factor and a right shift that divide a multiple of `divisor` modulo 2^32.

    They are the inverse of the odd part of the divisor, and its power of two. The quotient is exact
    if its product with that power of two fits in 32 bits.
    """
    shift = (divisor & -divisor).bit_length() - 1
    inverse = pow(divisor >> shift, -1, 1 << WORD)
    return inverse - (inverse >> (WORD - 1) << WORD), shift


class WinogradTilesOp(GraphOp, ABC):
    """Base class of Winograd convolutions; dimensions 2 and 3 of data and result are the image's.

    `winograd_conv` documents strides, phases, integers and weights of fewer bits.
    """

    FUSION: ClassVar[FusionKind] = FusionKind.COMPLEX_OUT_FUSABLE
    COUNTS_ON: ClassVar[str] = WINOGRAD

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    tile = prop_def(Int)
    stride = prop_def(Int, default_value=ONE)
    phases = prop_def(Int, default_value=ONE)
    starts = opt_prop_def(Ints)
    pads = opt_prop_def(Ints)
    result = result_def(TensorType)

    def __init__(
        self,
        x: SSAValue | Operation,
        w: SSAValue | Operation,
        *,
        tile: int,
        stride: int = 1,
        phases: int = 1,
        starts: Sequence[int] = (0, 0),
        pads: Sequence[int] | None = None,
    ):
        properties = {
            "tile": integer(tile),
            "stride": integer(stride),
            "phases": integer(phases),
            "starts": ints(starts) if any(starts) else None,
            "pads": window_properties(None, pads, None)["pads"],
        }
        super().__init__([x, w], properties)

    @property
    def step(self) -> int:
        """Stride of the convolution: the distance between elements of one transformed channel."""
        return self.stride.value.data

    @property
    def phase_count(self) -> int:
        """Number of phases in a spatial dimension of the result."""
        return self.phases.value.data

    @property
    def offsets(self) -> tuple[int, ...]:
        """Values of `starts`, zero by default."""
        return values_of(self.starts) or (0, 0)

    @property
    def taps(self) -> int:
        """Number of taps of a phase, `r`."""
        return shape_of(self.w)[0] // self.phase_count - self.tile.value.data + 1

    @property
    def tables(self) -> tuple[Tables, Tables]:
        """Transformation matrices for columns and for rows of a tile."""
        down, across = self.offsets
        own = self.tile, self.taps, self.phase_count
        whole = self.is_whole
        return tables_for(*own, down, whole=whole), tables_for(*own, across, whole=whole)

    @property
    def is_whole(self) -> bool:
        """Whether the op computes in integers."""
        return element_type(self.x) == i16

    @property
    def is_rounded(self) -> bool:
        """Whether transformed data is rounded to the type of the weights."""
        return element_type(self.x) == f32 and element_type(self.w) in (bf16, f16)

    @property
    def multiple(self) -> int:
        """Factor between the results and the sums to which tiles are transformed."""
        down, across = self.tables
        return down.scale * across.scale

    def sum_element(self) -> Attribute:
        """Return the result's element type; VerifyException if operand types do not match."""
        if self.is_rounded:
            return f32
        element = same_element_type(self.x, self.w)
        return i32 if element == i16 else element

    @property
    def window(self) -> Window:
        """Window of all elements that the phases of one position read."""
        step, phases = self.step, self.phase_count
        kernel = [(self.taps + (phases - 1 + start) // phases) * step for start in self.offsets]
        return Window.of(kernel, ints((step, step)), self.pads, None, crops=True)

    @property
    def outputs(self) -> int:
        """Number of outputs of a tile in each dimension."""
        return self.tile.value.data * self.phase_count

    @property
    def tiles(self) -> tuple[int, int]:
        """Number of rows and columns of tiles that cover the outputs of an image."""
        return math.ceil(self.shape[2] / self.outputs), math.ceil(self.shape[3] / self.outputs)

    @property
    def tile_count(self) -> int:
        """Number of tiles of all images."""
        return self.shape[0] * math.prod(self.tiles)

    def check_tiles(self) -> None:
        """Raise VerifyException unless the weights, [t, t, ...], match the tiles."""
        x, w, step, phases = shape_of(self.x), shape_of(self.w), self.step, self.phase_count
        if step < 1 or phases < 1:
            raise VerifyException(f"stride = {step} and phases = {phases} should be at least 1")
        if w[0] != w[1] or w[0] % phases or self.taps < 2:
            raise VerifyException(f"data {list(x)} and weights {list(w)} do not fit tiles")
        if len(self.offsets) != 2 or not all(0 <= start < phases for start in self.offsets):
            raise VerifyException(f"starts {list(self.offsets)} are not a pair of {phases} phases")
        tables_for(self.tile, self.taps, phases, whole=self.is_whole)

    def image_extents(self) -> tuple[int, ...]:
        """Return the number of rows and columns of a result."""
        return tuple(n * self.phase_count for n in self.window.output(shape_of(self.x)[2:4]))

    @property
    def reach(self) -> tuple[int, ...]:
        """Extents of the data that whole tiles read, from the start of the first tile."""
        tile = self.tile.value.data
        return tuple(
            ((count - 1) * tile + tables.reach) * self.step
            for count, tables in zip(self.tiles, self.tables, strict=True)
        )

    @property
    def border(self) -> tuple[list[int], list[int]]:
        """How far whole tiles extend before and after the rows and columns of the data."""
        low, extents = self.window.low, shape_of(self.x)[2:4]
        rows = zip(self.reach, low, extents, strict=True)
        high = [max(0, size - before - extent) for size, before, extent in rows]
        return [max(0, before) for before in low], high

    def work(self) -> int:
        """Return the operation count: two operations for each product of the contraction."""
        return 2 * math.prod(shape_of(self.w)) * self.tile_count

    def filtered(self, x: Array, w: Array) -> Array:
        """Compute the convolution with numpy.

        Data is [N, C, H, W], weights are [t, t, C s^2, O], and the result is [N, O, H', W']. With a
        stride s, channels of weights are ordered (u, v, c), c being the fastest.
        """
        (down, across), tile, outputs = self.tables, self.tile.value.data, self.outputs
        rows, columns = self.tiles
        size, starts = self.reach, [max(0, low) for low in self.window.low]
        x = x[(..., *(slice(max(0, -low), None) for low in self.window.low))]
        ends = zip(size, starts, x.shape[2:], strict=True)
        widths = [(0, 0), (0, 0), *((low, max(n - low - have, 0)) for n, low, have in ends)]
        padded = self._apart(np.pad(x, widths)[:, :, : size[0], : size[1]])
        span = Window.of((down.reach, across.reach), None, None, None)
        count = (rows - 1) * tile + 1, (columns - 1) * tile + 1
        views = view_windows(padded, span, count, 0)[:, :, ::tile, ::tile]
        bt = np.array(down.input), np.array(across.input)
        at = np.array(down.output), np.array(across.output)
        data = np.einsum("ik,jl,ncpqkl->ijnpqc", *bt, views, optimize=True)
        data = data.reshape(down.extent, across.extent, -1, padded.shape[1])
        if self.is_whole:
            # Sums of such products are exact in double precision.
            narrow = data.astype(np.int64).astype(np.int16)
            data, w = narrow.astype(np.float64), w.astype(np.float64)
        else:
            data, w = data.astype(w.dtype).astype(x.dtype), w.astype(x.dtype)
        sums = np.matmul(data, w)
        tiles = np.einsum("ik,jl,kltc->tcij", *at, sums, optimize=True)
        if self.is_whole:
            tiles = self._divided(tiles)
        tiles = tiles.reshape(x.shape[0], rows, columns, -1, outputs, outputs)
        image = tiles.transpose(0, 3, 1, 4, 2, 5)
        image = image.reshape(x.shape[0], -1, rows * outputs, columns * outputs)
        return image[:, :, : self.shape[2], : self.shape[3]]

    def _divided(self, sums: Array) -> Array:
        """Divide sums, which are a known multiple of the results, to results of 32 bits."""
        inverse, shift = exact_division(self.multiple)
        low = sums.astype(np.int64).astype(np.int32).astype(np.int64)
        return (low * inverse).astype(np.int32) >> shift

    def _apart(self, x: Array) -> Array:
        """Split the stride: channels (u, v, c) hold every stride-th row and column from (u, v)."""
        step, (images, channels, height, width) = self.step, x.shape
        parts = x.reshape(images, channels, height // step, step, width // step, step)
        parts = parts.transpose(0, 3, 5, 1, 2, 4)
        return parts.reshape(images, -1, height // step, width // step)

    def tile_place(self, number: te.Index) -> tuple[te.Index, te.Index, te.Index]:
        """Return a tile's image, row and column."""
        rows, columns = self.tiles
        per_image = rows * columns
        return number // per_image, number % per_image // columns, number % columns

    def tile_number(self, image: te.Index, row: te.Index, column: te.Index) -> te.Index:
        """Return the number of a tile, given its image, row and column."""
        rows, columns = self.tiles
        return (image * rows + row) * columns + column

    def covered(self, x: te.Tensor) -> tuple[te.Tensor, tuple[int, int]]:
        """Return data that contains all tiles, and the position where the first tile starts.

        The data is x, or a stage with zeros around it.
        """
        low, size = self.window.low, self.reach
        if not any(map(any, self.border)):
            return x, (-low[0], -low[1])

        def blocks(n: te.Axis, c: te.Axis, h: te.Axis, w: te.Axis, a: te.Axis) -> te.Expr:
            return x.read((n, c, h - low[0], w - low[1], a), default=0)

        def plain(n: te.Axis, c: te.Axis, h: te.Axis, w: te.Axis) -> te.Expr:
            return x.read((n, c, h - low[0], w - low[1]), default=0)

        inside = blocks if len(x.shape) == 5 else plain
        return te.compute((*x.shape[:2], *size, *x.shape[4:]), inside, name="pad"), (0, 0)
