"""Splitting of axes that are read divided by a constant, such as groups of channels.

A walk by hand: functions are changed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, IndexType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from tcopt.dialects.graph.core.types import element_type, tensor
from tcopt.dialects.te import ComputeOp, FuncOp, IndexOp, ReadOp
from tcopt.dialects.te.access import index_ranges
from tcopt.passes.te.call_views import adapt_calls
from tcopt.passes.te.te_inline import is_contraction, uses_table
from tcopt.support.arithmetic.affine import Dim, FloorDiv, Mod, linear_sum, simplify, substitute
from tcopt.support.arithmetic.sizes import lower_bound
from tcopt.support.ir.rewriting import erase, replace
from tcopt.support.syntax.access_syntax import unique_operands


@dataclass(frozen=True)
class SplitAxesPass(ModulePass):
    """Split an axis that a contraction reads divided by a constant, and the axes that read it.

    The channels of a grouped convolution read the data of their group, whose index is a quotient.
    As an axis inside of an axis over groups, they read the same data, so a schedule sees that a
    loaded element serves all of them. The host function gets views with the old shapes.

        te.func @f(%x: tensor<8x9xf32>, %w: tensor<6x4xf32>) -> tensor<6x9xf32> {
          %y = te.compute "conv" [%o = 6, %p = 9] reduce [%c = 4] sum : tensor<6x9xf32> {
            %0 = te.read %x[%o floordiv 3 * 4 + %c, %p] : tensor<8x9xf32>
            %1 = te.read %w[%o, %c] : tensor<6x4xf32>
            ...
    ->
        te.func @f(%x: tensor<8x9xf32>, %w: tensor<6x4xf32>) -> tensor<2x3x9xf32> {
          %y = te.compute "conv" [%o = 2, %oi = 3, %p = 9] reduce [%c = 4] sum : ... {
            %0 = te.read %x[%o * 4 + %c, %p] : tensor<8x9xf32>
            %1 = te.read %w[%o * 3 + %oi, %c] : tensor<6x4xf32>
            ...
    """

    name = "split-axes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        changed: dict[str, FunctionType] = {}
        for function in op.ops:
            if isinstance(function, FuncOp) and _split_quotients(function):
                changed[function.sym_name.data] = function.function_type
        adapt_calls(op, changed)


def _split_quotients(function: FuncOp) -> bool:
    """Split the axes that contractions of a function read as quotients; return whether any is."""
    if any(uses_table(stage) for stage in function.stages):
        return False  # Schedules need the separate axes of tiles.
    found = False
    while (axis := _quotient(function)) is not None:
        _split(*axis)
        found = True
    if found:
        inputs = function.function_type.inputs.data
        outputs = [value.type for value in function.outputs]
        function.properties["function_type"] = FunctionType.from_lists(inputs, outputs)
    return found


def _quotient(function: FuncOp) -> tuple[ComputeOp, int, int] | None:
    """Return a stage, its axis that is read as a quotient, and the divisor, or None."""
    for stage in function.stages:
        if not is_contraction(stage):
            continue
        for read in stage.body.block.ops:
            if not isinstance(read, ReadOp):
                continue
            for axis, size in _shared(read):
                if _is_splittable(stage, axis, size):
                    return stage, stage.body.block.args.index(axis), size
    return None


def _shared(read: ReadOp) -> list[tuple[SSAValue, int]]:
    """Return the values of which only the quotient is read, with the divisors.

    If the remainder is an index too, the data is merely stored in parts, like a matrix in panels.
    """
    remainders = _parts_of(read, Mod)
    return [part for part in _divided(read) if part not in remainders]


def _divided(read: ReadOp) -> list[tuple[SSAValue, int]]:
    """Return the values whose quotients are in a read's indices, with the divisors."""
    return _parts_of(read, FloorDiv)


def _parts_of(read: ReadOp, kind: type[FloorDiv | Mod]) -> list[tuple[SSAValue, int]]:
    """Return the values whose quotients or remainders are in a read's indices, and the divisors."""
    ranges = index_ranges(read.indices)
    sums = [linear_sum(expr, ranges) for expr in read.map.data.results]
    atoms = [atom for total in sums for atom, _ in total.terms if isinstance(atom, kind)]
    found: list[tuple[SSAValue, int]] = []
    for atom in atoms:
        match atom.operand.terms:
            case ((Dim() as dim, 1),) if not atom.operand.constant:
                found.append((read.indices[dim.position], atom.divisor))
            case _:
                pass
    return found


def _is_splittable(stage: ComputeOp, axis: SSAValue, size: int) -> bool:
    """Whether an axis of a stage's result is a multiple of the size, and only indexes reads."""
    block = stage.body.block
    if axis.owner is not block or not _only_indexes(axis):
        return False
    position = block.args.index(axis)
    if position >= len(stage.spatial_extents):
        return False
    extent = stage.spatial_extents[position]
    return lower_bound(extent) > size > 1 and extent % size == 0


def _only_indexes(axis: SSAValue) -> bool:
    return all(isinstance(use.operation, ReadOp | IndexOp) for use in axis.uses)


def _split(stage: ComputeOp, position: int, size: int) -> None:
    """Split one axis of a stage's result, and the same axis of stages that read it in order."""
    new = _with_parts(stage, position, size)
    for use in list(stage.result.uses):
        match use.operation:
            case ReadOp() as read:
                _read_parts(read, new.result, position, size)
            case user:
                user.operands[use.index] = new.result
    users = [use.operation for use in new.result.uses]
    erase(stage)
    for user in users:
        reader = user.parent_op()
        if not isinstance(user, ReadOp) or not isinstance(reader, ComputeOp):
            continue
        for axis, divisor in _divided(user):
            if divisor == size and _is_splittable(reader, axis, size):
                _split(reader, reader.body.block.args.index(axis), size)
                break


def _with_parts(stage: ComputeOp, position: int, size: int) -> ComputeOp:
    """Return a new stage, inserted before this one, with its body and one axis split in two."""
    block = stage.body.block
    outer = block.args[position]
    inner = block.insert_arg(IndexType(), position + 1)
    inner.name_hint = f"{outer.name_hint}i" if outer.name_hint else None
    extents = list(stage.spatial_extents)
    extents[position : position + 1] = [extents[position] // size, size]
    new = ComputeOp(
        stage.stage.data,
        extents,
        stage.detach_region(stage.body),
        tensor(extents, element_type(stage.result)),
        stage.reduction_extents,
        None if stage.combiner is None else stage.combiner.data,
    )
    new.attributes.update(stage.attributes)
    new.location = stage.location
    new.result.name_hint = stage.result.name_hint
    parent = stage.parent
    assert parent is not None
    parent.insert_op_before(new, stage)
    for user in {use.operation for use in outer.uses}:
        _index_parts(user, outer, inner, size)
    return new


def _index_parts(user: Operation, outer: SSAValue, inner: SSAValue, size: int) -> None:
    """Let an op that indexes by an axis index by its two parts."""
    assert isinstance(user, ReadOp | IndexOp)
    indices = [*user.indices, inner]
    last = AffineDimExpr(len(indices) - 1)
    dims: list[AffineExpr] = [
        AffineDimExpr(place) * size + last if value is outer else AffineDimExpr(place)
        for place, value in enumerate(indices)
    ]
    map, operands = _simplified([substitute(e, dims) for e in user.map.data.results], indices)
    if isinstance(user, ReadOp):
        replace(user, ReadOp(user.source, map, operands, user.default))
    else:
        replace(user, IndexOp(map, operands))


def _read_parts(read: ReadOp, source: SSAValue, position: int, size: int) -> None:
    """Let a read access a stage whose axis was split."""
    exprs = list(read.map.data.results)
    whole = exprs[position]
    exprs[position : position + 1] = [whole // size, whole % size]
    map, operands = _simplified(exprs, list(read.indices))
    replace(read, ReadOp(source, map, operands, read.default))


def _simplified(
    exprs: list[AffineExpr], indices: list[SSAValue]
) -> tuple[AffineMap, list[SSAValue]]:
    ranges = index_ranges(indices)
    results = tuple(simplify(expr, ranges) for expr in exprs)
    return unique_operands(AffineMap(len(indices), 0, results), indices)
