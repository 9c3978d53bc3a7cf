"""Ops that move elements without changing them: views, permutations, replication."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import (
    DepthOrder,
    DepthOrderAttr,
    Extents,
    Int,
    Ints,
    extents_attr,
    extents_in,
    flag,
    integer,
    ints,
)
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.stages import read_broadcast, reshape_indices
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    as_extents,
    broadcast_shapes,
    check_permutation,
    element_type,
    shape_of,
    tensor,
    type_of,
)
from tcopt.dialects.te import api as te
from tcopt.support.arithmetic.sizes import Size, upper_bound


class MovementOp(GraphOp, ABC):
    """Base class of ops whose result elements are elements of their only operand."""

    x = operand_def(TensorType)
    result = result_def(TensorType)

    @property
    def selects(self) -> bool:
        """True: each result element is an element of the operand."""
        return True

    def compute_sizes(self, *arrays: Array) -> Array | None:
        """Evaluate like `compute`."""
        return self.compute(*arrays)


@irdl_op_definition
class ReshapeOp(MovementOp):
    """The same elements in row-major order, in another shape."""

    name = "graph.reshape"
    VIEW: ClassVar[bool] = True

    def __init__(self, x: SSAValue | Operation, shape: Sequence[int]):
        """One entry of `shape` may be -1: it is inferred from the number of elements."""
        value = SSAValue.get(x)
        result = as_extents(shape)
        if result.count(-1) == 1:
            known = -math.prod(result)
            result[result.index(-1)] = math.prod(shape_of(value)) // known if known else 0
        super().__init__([value], result_type=tensor(result, element_type(value)))
        self.infer()

    def infer(self) -> Sequence[AnyTensor]:
        """Return the result's shape with the operand's element type."""
        is_negative = any(upper_bound(n) < 0 for n in self.shape)
        if math.prod(shape_of(self.x)) != math.prod(self.shape) or is_negative:
            raise VerifyException(f"{self.x.type} and {self.type} differ in number of elements")
        return (tensor(self.shape, element_type(self.x)),)

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it has the result's shape."""
        return self.x

    def simplify(self) -> Sequence[Operation] | None:
        """Merge two consecutive reshapes."""
        inner = self.x.owner
        return (ReshapeOp(inner.x, self.shape),) if isinstance(inner, ReshapeOp) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return x.reshape(self.shape)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that reads the element with the same row-major index."""
        source, target = x.shape, self.shape
        return te.compute(
            target, lambda *axes: x[tuple(reshape_indices(source, target, axes))], name="reshape"
        )


@irdl_op_definition
class TransposeOp(MovementOp):
    """Permute the axes: result axis i is operand axis perm[i]."""

    name = "graph.transpose"

    perm = prop_def(Ints)

    def __init__(self, x: SSAValue | Operation, perm: Sequence[int] | None = None):
        """Without `perm` the axes are reversed."""
        value = SSAValue.get(x)
        if perm is None:
            perm = range(len(shape_of(value)))[::-1]
        super().__init__([value], {"perm": ints(perm)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return the permuted shape."""
        shape, perm = shape_of(self.x), self.perm.get_values()
        check_permutation(perm, len(shape))
        return (tensor([shape[axis] for axis in perm], element_type(self.x)),)

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if no axis moves."""
        return self.x if list(p := self.perm.get_values()) == sorted(p) else None

    def simplify(self) -> Sequence[Operation] | None:
        """Merge two transposes; replace one that only moves axes of extent 1 by a reshape."""
        inner, perm = self.x.owner, self.perm.get_values()
        if isinstance(inner, TransposeOp):
            before = inner.perm.get_values()
            return (TransposeOp(inner.x, [before[axis] for axis in perm]),)
        shape = shape_of(self.x)
        moved = [axis for axis in perm if shape[axis] != 1]
        return (ReshapeOp(self.x, self.shape),) if moved == sorted(moved) else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return x.transpose(self.perm.get_values())

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that reads with the inverse permutation."""
        perm = self.perm.get_values()
        inverse = sorted(range(len(perm)), key=perm.__getitem__)
        return te.compute(
            self.shape, lambda *axes: x[tuple(axes[axis] for axis in inverse)], name="transpose"
        )


@irdl_op_definition
class BroadcastToOp(MovementOp):
    """Repeat along new axes and axes of extent 1, like numpy's broadcast_to."""

    name = "graph.broadcast_to"
    ELEMENTWISE: ClassVar[bool] = True

    def __init__(self, x: SSAValue | Operation, shape: Sequence[int]):
        """The result's shape is x's shape broadcast against `shape`, as in ONNX's Expand."""
        value = SSAValue.get(x)
        result = broadcast_shapes(shape_of(value), shape)
        super().__init__([value], result_type=tensor(result, element_type(value)))

    def infer(self) -> Sequence[AnyTensor]:
        """Return the result's shape with the operand's element type."""
        if broadcast_shapes(shape_of(self.x), self.shape) != self.shape:
            raise VerifyException(f"{self.x.type} does not broadcast to {self.type}")
        return (tensor(self.shape, element_type(self.x)),)

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if it has the result's shape."""
        return self.x

    def simplify(self) -> Sequence[Operation] | None:
        """Merge two broadcasts; replace one that only adds axes of extent 1 by a reshape."""
        inner = self.x.owner
        if isinstance(inner, BroadcastToOp):
            return (BroadcastToOp(inner.x, self.shape),)
        same = math.prod(self.shape) == math.prod(shape_of(self.x))
        return (ReshapeOp(self.x, self.shape),) if same else None

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.broadcast_to(x, self.shape)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that reads index 0 of repeated axes."""
        return te.compute(self.shape, lambda *axes: read_broadcast(x, axes), name="broadcast_to")


@irdl_op_definition
class TileOp(MovementOp):
    """Repeat the whole tensor `reps` times along each axis."""

    name = "graph.tile"

    reps = prop_def(Extents)

    def __init__(self, x: SSAValue | Operation, reps: Sequence[int]):
        super().__init__([x], {"reps": extents_attr(reps)})

    def infer(self) -> Sequence[AnyTensor]:
        """Return the extents times the repetitions."""
        shape, reps = shape_of(self.x), extents_in(self.reps)
        if len(reps) != len(shape) or any(n < 0 for n in reps):
            raise VerifyException(f"reps {list(reps)} do not fit a tensor of rank {len(shape)}")
        result = [extent * count for extent, count in zip(shape, reps, strict=True)]
        return (tensor(result, element_type(self.x)),)

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if nothing repeats."""
        return self.x

    def simplify(self) -> Sequence[Operation] | None:
        """Replace by a broadcast, if only axes of extent 1 repeat."""
        rows = zip(shape_of(self.x), extents_in(self.reps), strict=True)
        unit = all(extent == 1 or count == 1 for extent, count in rows)
        return (BroadcastToOp(self.x, self.shape),) if unit and 0 not in self.shape else None

    def decompose(self) -> Sequence[GraphOp] | None:
        """Return a broadcast along a new axis if rows repeat, because an index modulo the row
        length cannot be vectorised."""
        shape, reps = shape_of(self.x), extents_in(self.reps)
        wide = [axis for axis, extent in enumerate(shape) if extent > 1]
        if not wide or reps[wide[-1]] == 1 or 0 in self.shape:
            return None
        pairs = list(zip(reps, shape, strict=True))
        apart = ReshapeOp(self.x, [n for _, extent in pairs for n in (1, extent)])
        repeated = BroadcastToOp(apart, [n for pair in pairs for n in pair])
        return apart, repeated, ReshapeOp(repeated, self.shape)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        return np.tile(x, extents_in(self.reps))

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that reads modulo the operand's extents."""
        repeated = [count != 1 for count in extents_in(self.reps)]

        def place(axis: te.Axis, extent: int) -> te.Index:
            # Indices are affine; a remainder by a size is computed as a value.
            is_fixed = not isinstance(extent, Size)
            return axis % extent if is_fixed else te.index(te.cast(axis, "i64") % extent)

        def body(*axes: te.Axis) -> te.Expr:
            rows = zip(axes, x.shape, repeated, strict=True)
            return x[tuple(place(axis, extent) if again else axis for axis, extent, again in rows)]

        return te.compute(self.shape, body, name="tile")


class BlockOp(MovementOp, ABC):
    """Base class of exchanges between channels and spatial blocks, on [N, C, H, W]."""

    blocksize = prop_def(Int)

    @property
    def block(self) -> int:
        """Extent of a block in each spatial dimension."""
        return self.blocksize.value.data

    def check_operand(self) -> tuple[int, int, int, int]:
        """Return the operand's shape; VerifyException unless it has four dimensions."""
        shape = shape_of(self.x)
        if len(shape) != 4 or self.block < 1:
            raise VerifyException("expects four dimensions and a block size of at least 1")
        return shape[0], shape[1], shape[2], shape[3]

    def unchanged(self) -> SSAValue | None:
        """Return the operand, if a block is one element."""
        return self.x if self.block == 1 else None


@irdl_op_definition
class DepthToSpaceOp(BlockOp):
    """Move channels to spatial blocks; `mode` selects whether the block is the outer (dcr) or inner
    (crd) part of the channel."""

    name = "graph.depth_to_space"

    mode = prop_def(DepthOrderAttr, default_value=DepthOrderAttr(DepthOrder.DCR))

    def __init__(self, x: SSAValue | Operation, *, blocksize: int, mode: str = "dcr"):
        order = DepthOrderAttr(DepthOrder(mode.lower()))
        super().__init__([x], {"blocksize": integer(blocksize), "mode": order})

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, C / b / b, H * b, W * b]."""
        n, c, h, w = self.check_operand()
        b = self.block
        if c % (b * b):
            raise VerifyException(f"{c} channels do not split into blocks of {b}x{b}")
        return (tensor((n, c // (b * b), h * b, w * b), element_type(self.x)),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        (n, c, h, w), b = x.shape, self.block
        depth = c // (b * b)
        if self.mode.data is DepthOrder.DCR:
            blocks = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
        else:
            blocks = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
        return blocks.reshape(n, depth, h * b, w * b)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that computes the channel from the position in the block."""
        b, depth = self.block, self.shape[1]
        dcr = self.mode.data is DepthOrder.DCR

        def body(n: te.Axis, c: te.Axis, h: te.Axis, w: te.Axis) -> te.Expr:
            place = (h % b) * b + w % b
            channel = place * depth + c if dcr else c * (b * b) + place
            return x[n, channel, h // b, w // b]

        return te.compute(self.shape, body, name="depth_to_space")


@irdl_op_definition
class SpaceToDepthOp(BlockOp):
    """Move spatial blocks to channels: the inverse of depth_to_space in dcr order."""

    name = "graph.space_to_depth"

    def __init__(self, x: SSAValue | Operation, *, blocksize: int):
        super().__init__([x], {"blocksize": integer(blocksize)})

    def infer(self) -> Sequence[AnyTensor]:
        """Infer the result shape [N, C * b * b, H / b, W / b]."""
        n, c, h, w = self.check_operand()
        b = self.block
        if h % b or w % b:
            raise VerifyException(f"{h}x{w} does not split into blocks of {b}x{b}")
        return (tensor((n, c * b * b, h // b, w // b), element_type(self.x)),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        (n, c, h, w), b = x.shape, self.block
        blocks = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
        return blocks.reshape(n, c * b * b, h // b, w // b)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that computes the position in the block from the channel."""
        b, depth = self.block, x.shape[1]

        def body(n: te.Axis, c: te.Axis, h: te.Axis, w: te.Axis) -> te.Expr:
            return x[n, c % depth, h * b + c // (depth * b), w * b + c // depth % b]

        return te.compute(self.shape, body, name="space_to_depth")


@irdl_op_definition
class TriluOp(MovementOp):
    """Keep the lower triangle of the last two axes, or the upper, and zero the rest.

    Elements with column - row <= k are kept, or with `upper` those with column - row >= k.
    """

    name = "graph.trilu"
    ELEMENTWISE: ClassVar[bool] = True

    k = prop_def(Int, default_value=integer(0))
    upper = opt_prop_def(UnitAttr)

    def __init__(self, x: SSAValue | Operation, *, k: int = 0, upper: bool = True):
        super().__init__([x], {"k": integer(k), "upper": flag(upper)})

    @property
    def selects(self) -> bool:
        """False: elements outside the triangle are zeros, not operand elements."""
        return False

    @property
    def diagonal(self) -> int:
        """The diagonal `k`, clamped to the matrix and the diagonals next to it."""
        *_, rows, columns = type_of(self.x).get_shape()
        return min(max(self.k.value.data, -rows), columns)

    def infer(self) -> Sequence[AnyTensor]:
        """Return the operand's type."""
        if len(shape_of(self.x)) < 2:
            raise VerifyException("expects at least two dimensions")
        return (type_of(self.x),)

    def compute(self, x: Array) -> Array:
        """Evaluate the op with numpy."""
        keep = np.triu if self.upper is not None else np.tril
        return keep(x, self.diagonal)

    def tensor_expression(self, x: te.Tensor) -> te.Tensor:
        """Return one stage that selects by the distance from the diagonal."""
        k, upper = self.diagonal, self.upper is not None

        def body(*axes: te.Axis) -> te.Expr:
            distance = axes[-1] - axes[-2]
            keep = distance >= k if upper else distance <= k
            return te.select(keep, x[axes], te.const(0, x.dtype))

        return te.compute(self.shape, body, name="trilu")
