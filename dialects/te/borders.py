"""Stages that pad another stage, which can then write directly into the padded buffer."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from tcopt.dialects.te.access import ReadOp
from tcopt.dialects.te.ops import ComputeOp, ReturnOp, YieldOp
from tcopt.support.arithmetic.affine import Dim, linear_sum
from tcopt.support.arithmetic.sizes import lower_bound


@dataclass(frozen=True)
class BorderStage:
    """A function result that is another stage padded with a constant value.

    Attributes:
        stage: the padding stage.
        inner: the padded stage, which has no other reader.
        low: the number of padding elements before it, along each axis.
        value: the padding value.
    """

    stage: ComputeOp
    inner: ComputeOp
    low: tuple[int, ...]
    value: IntegerAttr | FloatAttr


def match_border(stage: ComputeOp) -> BorderStage | None:
    """Match a stage that pads another one. Return None if it does anything else."""
    ops = list(stage.body.block.ops)
    if len(ops) != 2 or stage.is_reduction or not _is_result(stage):
        return None
    read, last = ops
    if not isinstance(read, ReadOp) or not isinstance(last, YieldOp) or read.default is None:
        return None
    inner = read.source.owner
    if last.value is not read.result or not isinstance(inner, ComputeOp):
        return None
    low = _offsets(read, stage)
    if low is None or len(list(inner.result.uses)) != 1:
        return None
    rows = zip(low, inner.spatial_extents, stage.spatial_extents, strict=True)
    if any(
        before < 0 or lower_bound(whole - before - extent) < 0 for before, extent, whole in rows
    ):
        return None
    return BorderStage(stage, inner, low, read.default)


def _is_result(stage: ComputeOp) -> bool:
    users = [use.operation for use in stage.result.uses]
    return len(users) == 1 and isinstance(users[0], ReturnOp)


def _offsets(read: ReadOp, stage: ComputeOp) -> tuple[int, ...] | None:
    """Return the offsets of a read that reads one element for each point, in order."""
    axes = list(stage.body.block.args)
    exprs = read.map.data.results
    if len(exprs) != len(axes):
        return None
    found: list[int] = []
    for axis, extent, expr in zip(axes, stage.spatial_extents, exprs, strict=True):
        total = linear_sum(expr, ())
        if total.is_constant and total.constant == 0 and extent == 1:
            found.append(0)
            continue
        used = [atom for atom, factor in total.terms if factor == 1]
        if len(used) != 1 or len(total.terms) != 1 or not isinstance(used[0], Dim):
            return None
        if read.indices[used[0].position] is not axis:
            return None
        found.append(-total.constant)
    return tuple(found)
