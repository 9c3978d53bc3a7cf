"""Match a block under some innermost loops with the behaviour of a hardware intrinsic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.traits import Commutative
from xdsl.utils.hints import isa

from tcopt.dialects.fast_math import flags_of
from tcopt.dialects.intrinsics import Intrinsic, Operand, intrinsic
from tcopt.dialects.loop import BlockOp, ForOp, IterKind, LoadOp, StoreOp, is_same_place
from tcopt.dialects.loop.analysis import binding_values, value_ranges
from tcopt.dialects.loop.intrin import Steps
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules.state.state import value_label
from tcopt.support.arithmetic.affine import (
    Dim,
    LinearSum,
    linear_sum,
    substitute,
    sum_range,
    to_expr,
)
from tcopt.support.arithmetic.sizes import Extent, lower_bound

_COMMUTATIVE = (arith.AddfOp, arith.MulfOp)
"""Commutative ops that lack the trait."""


class Mismatch(Exception):
    """The way in which loops differ from an intrinsic's behaviour."""


@dataclass(frozen=True)
class BehaviourAxis:
    """A loop of an intrinsic's behaviour, given as an iteration variable of its block."""

    variable: SSAValue
    kind: IterKind
    extent: int

    @property
    def name(self) -> str:
        """Name of the axis in the intrinsic's declaration."""
        hint = self.variable.name_hint or "axis"
        return hint.removeprefix("v")


@dataclass(frozen=True)
class Behaviour:
    """Behaviour of an intrinsic, given as a block.

    Attributes:
        axes: its loops, outermost first.
        buffers: buffers of its operands, the output first.
    """

    declared: Intrinsic
    block: BlockOp
    axes: tuple[BehaviourAxis, ...]
    buffers: tuple[SSAValue, ...]

    def operand(self, buffer: SSAValue) -> Operand:
        """Return the operand that a buffer of the block represents."""
        return self.declared.operands[self.buffers.index(buffer)]


@dataclass(frozen=True)
class Matched:
    """The accesses of a block that correspond to an intrinsic's operands, the output first.

    Attributes:
        steps: for each operand, the strides of the indices along each dimension of its tile.
    """

    accesses: tuple[LoadOp | StoreOp, ...]
    steps: tuple[Steps, ...]


def behaviour_of(name: str) -> Behaviour:
    """Return the behaviour of an intrinsic; raise UnsupportedError if the name is unknown."""
    return _behaviour(intrinsic(name))


@lru_cache(maxsize=256)
def _behaviour(declared: Intrinsic) -> Behaviour:
    function = lower_function(declared.function)
    block = next(op for op in function.walk() if isinstance(op, BlockOp))
    *inputs, output = function.body.block.args
    if declared.old is not None:
        # The old value of the output is read from the output buffer.
        old = inputs.pop([*declared.inputs].index(declared.old))
        old.replace_all_uses_with(output)
    axes = zip(block.iter_vars, block.iter_kinds, block.domain, strict=True)
    return Behaviour(
        declared, block, tuple(BehaviourAxis(*each) for each in axes), (output, *inputs)
    )


def match_behaviour(behaviour: Behaviour, block: BlockOp, loops: Sequence[ForOp]) -> Matched:
    """Match a block under loops, outermost first, with a behaviour.

    Raises:
        Mismatch: the message says how they differ.
    """
    _match_loops(behaviour, block, loops)
    _match_elements(behaviour, block)
    stores = [op for op in block.body.block.ops if isinstance(op, StoreOp)]
    if len(stores) != 1 or any(op.regions for op in block.body.block.ops if op is not block.init):
        raise Mismatch(
            f"the block should be one expression and its store, not {len(stores)} stores"
        )
    try:
        return _match_store(behaviour, block, loops, stores[0], in_order=True)
    except Mismatch as reason:
        # Factors of the same type match in either order, but their layouts may match in only one.
        try:
            return _match_store(behaviour, block, loops, stores[0], in_order=False)
        except Mismatch:
            raise reason from None


def computes(behaviour: Behaviour, block: BlockOp, loops: Sequence[ForOp]) -> bool:
    """Whether a block under loops, outermost first, computes what an intrinsic does."""
    try:
        match_behaviour(behaviour, block, loops)
    except Mismatch:
        return False
    return True


def _match_store(
    behaviour: Behaviour, block: BlockOp, loops: Sequence[ForOp], store: StoreOp, *, in_order: bool
) -> Matched:
    """Match the value that a block stores.

    Args:
        in_order: whether to try the given order of commutative operands first.
    """
    (wanted,) = (op for op in behaviour.block.body.block.ops if isinstance(op, StoreOp))
    found: dict[SSAValue, LoadOp | StoreOp] = {}
    counts = _counts(behaviour, block, loops)
    _match_value(store.value, wanted.value, found, behaviour, counts, in_order=in_order)
    output = behaviour.buffers[0]
    if not is_same_place(store, found.setdefault(output, store)):
        verb = "add to" if behaviour.declared.adds else "change"
        raise Mismatch(f"the block does not {verb} the element that it stores")
    accesses = tuple(found[buffer] for buffer in behaviour.buffers)
    patterns: dict[SSAValue, LoadOp | StoreOp] = {wanted.memref: wanted}
    for op in behaviour.block.body.block.ops:
        if isinstance(op, LoadOp):
            patterns[op.memref] = op
    steps = tuple(
        _match_steps(behaviour, access, patterns[buffer], block, loops)
        for access, buffer in zip(accesses, behaviour.buffers, strict=True)
    )
    return Matched(accesses, steps)


def _match_loops(behaviour: Behaviour, block: BlockOp, loops: Sequence[ForOp]) -> None:
    """Check number, extents and kinds of the loops, and that domains end between tiles."""
    if len(loops) != len(behaviour.axes):
        raise Mismatch(
            f"there are {len(loops)} loops where the intrinsic has {len(behaviour.axes)}"
        )
    for loop, axis in zip(loops, behaviour.axes, strict=True):
        label = value_label(loop.induction_variable)
        if loop.trip_count != axis.extent:
            raise Mismatch(
                f"{label} has {loop.trip_count} iterations where the intrinsic's '{axis.name}' has "
                f"{axis.extent}"
            )
        kinds = {
            kind
            for position, kind in enumerate(block.iter_kinds)
            if loop.induction_variable in binding_values(block, position)
            and (kind is IterKind.REDUCE or block.iter_vars[position].first_use is not None)
        }
        if kinds - {axis.kind}:
            raise Mismatch(
                f"{label} is a {(kinds - {axis.kind}).pop().value} loop where the "
                f"intrinsic's '{axis.name}' is {axis.kind.value}"
            )
    values = list(block.operands_)
    ranges = value_ranges(values)
    moving = {v: n for v, n in ((o.induction_variable, o.trip_count) for o in loops)}
    for variable, binding, extent in zip(
        block.iter_vars, block.bindings.data.results, block.live_domain, strict=True
    ):
        total = linear_sum(binding, ranges)
        steps, rest = _split(total, values, moving)
        if steps is None:
            raise Mismatch(f"the binding of {value_label(variable)} divides by a loop of the tile")
        reach = sum(abs(step) * (moving[v] - 1) for v, step in steps.items())
        if reach and not _ends_between(rest, reach + 1, extent, total, values):
            raise Mismatch(
                f"a tile may stick out of the {extent} iterations of {value_label(variable)}"
            )


def _ends_between(
    rest: LinearSum, size: int, extent: Extent, total: LinearSum, values: Sequence[SSAValue]
) -> bool:
    """Whether each tile of `size` is completely inside or completely outside of the domain."""
    low, high = sum_range(total, value_ranges(values))
    if low >= 0 and high < lower_bound(extent):
        return True
    whole = all(factor % size == 0 for _, factor in rest.terms) and rest.constant % size == 0
    return whole and extent % size == 0


def _split(
    total: LinearSum, values: Sequence[SSAValue], moving: Mapping[SSAValue, int]
) -> tuple[dict[SSAValue, int] | None, LinearSum]:
    """Return the strides of a sum along the values in `moving`, and the remaining terms.

    The strides are None if a division depends on one of these values.
    """
    steps: dict[SSAValue, int] = {}
    rest = list(total.terms)
    for atom, factor in total.terms:
        if isinstance(atom, Dim):
            if values[atom.position] in moving:
                steps[values[atom.position]] = factor
                rest.remove((atom, factor))
        elif any(values[p] in moving for p in to_expr(atom.operand).used_dims()):
            return None, total
    return steps, LinearSum(tuple(rest), total.constant)


def _match_elements(behaviour: Behaviour, block: BlockOp) -> None:
    """Check the element types that are read and written."""
    ops = list(block.body.block.ops)
    written = [_element(op.memref) for op in ops if isinstance(op, StoreOp)]
    stored = {op.memref for op in ops if isinstance(op, StoreOp)}
    read = [_element(op.memref) for op in ops if isinstance(op, LoadOp) and op.memref not in stored]
    output, *inputs = behaviour.declared.operands
    for verb, got, wanted in (
        ("writes", written, [output.element]),
        ("reads", read, [operand.element for operand in inputs]),
    ):
        if sorted(map(str, got)) != sorted(map(str, wanted)):
            raise Mismatch(
                f"the block {verb} {_listed(got)} where the intrinsic {verb} {_listed(wanted)}"
            )


def _listed(elements: Sequence[Attribute]) -> str:
    return " and ".join(map(str, elements)) or "nothing"


def _element(buffer: SSAValue) -> Attribute:
    assert isa(buffer.type, MemRefType)
    return buffer.type.get_element_type()


def _counts(
    behaviour: Behaviour, block: BlockOp, loops: Sequence[ForOp]
) -> dict[SSAValue, list[SSAValue]]:
    """Return the block's variables that equal the iteration number of each intrinsic loop."""
    values = list(block.operands_)
    ranges = value_ranges(values)
    found: dict[SSAValue, list[SSAValue]] = {}
    for axis, loop in zip(behaviour.axes, loops, strict=True):
        found[axis.variable] = []
        for variable, binding in zip(block.iter_vars, block.bindings.data.results, strict=True):
            moving = {loop.induction_variable: loop.trip_count}
            steps, rest = _split(linear_sum(binding, ranges), values, moving)
            if steps == {loop.induction_variable: 1} and sum_range(rest, ranges) == (0, 0):
                found[axis.variable].append(variable)
    return found


def _match_value(
    value: SSAValue,
    wanted: SSAValue,
    found: dict[SSAValue, LoadOp | StoreOp],
    behaviour: Behaviour,
    counts: Mapping[SSAValue, Sequence[SSAValue]],
    *,
    in_order: bool,
) -> None:
    """Match an expression, up to the order of commutative operands; add its loads to `found`."""
    op, pattern = value.owner, wanted.owner
    if not isinstance(pattern, Operation):
        if value not in counts[wanted]:
            name = next(axis.name for axis in behaviour.axes if axis.variable is wanted)
            raise Mismatch(f"the block has another number where the intrinsic has its '{name}'")
        return
    if isinstance(pattern, LoadOp):
        _match_load(op, pattern, found, behaviour)
        return
    if not isinstance(op, Operation) or op.name != pattern.name:
        got = op.name if isinstance(op, Operation) else value_label(value)
        raise Mismatch(f"the block has {got} where the intrinsic has {pattern.name}")
    if [r.type for r in op.results] != [r.type for r in pattern.results]:
        raise Mismatch(f"{op.name} returns {value.type} where the intrinsic returns {wanted.type}")
    if _meaning(op) != _meaning(pattern):
        raise Mismatch(f"{op.name} has other attributes than the intrinsic's")
    if missing := flags_of(pattern).data - flags_of(op).data:
        names = ",".join(sorted(flag.value for flag in missing))
        raise Mismatch(f"{op.name} has no fastmath<{names}>, and the intrinsic rounds otherwise")
    orders = [list(op.operands)]
    if isinstance(op, _COMMUTATIVE) or op.has_trait(Commutative):
        orders.insert(1 if in_order else 0, orders[0][::-1])
    reasons: list[Mismatch] = []
    for operands in orders:
        known = dict(found)
        try:
            for each in zip(operands, pattern.operands, strict=True):
                _match_value(*each, known, behaviour, counts, in_order=in_order)
        except Mismatch as reason:
            reasons.append(reason)
            continue
        found.update(known)
        return
    raise reasons[0]


def _meaning(op: Operation) -> dict[str, Attribute]:
    """Return an op's properties without fast-math flags."""
    return {name: value for name, value in op.properties.items() if name != "fastmath"}


def _match_load(
    op: object,
    pattern: LoadOp,
    found: dict[SSAValue, LoadOp | StoreOp],
    behaviour: Behaviour,
) -> None:
    if not isinstance(op, LoadOp):
        name = op.name if isinstance(op, Operation) else "an index"
        raise Mismatch(
            f"the block has {name} where the intrinsic reads {value_label(pattern.memref)}"
        )
    if op.lanes is not None or op.mask is not None:
        raise Mismatch(f"a read of {value_label(op.memref)} has lanes")
    operand = behaviour.operand(pattern.memref)
    if op.default is not None and not (
        operand.is_padded and op.default.value.data == operand.outside
    ):
        raise Mismatch(
            f"a read of {value_label(op.memref)} has a default, and the intrinsic's "
            f"'{operand.name}' has none of it"
        )
    if _element(op.memref) != _element(pattern.memref):
        raise Mismatch(
            f"the block reads {_element(op.memref)} of {value_label(op.memref)} where the "
            f"intrinsic reads {_element(pattern.memref)} of {value_label(pattern.memref)}"
        )
    found[pattern.memref] = op


def _match_steps(
    behaviour: Behaviour,
    access: LoadOp | StoreOp,
    pattern: LoadOp | StoreOp,
    block: BlockOp,
    loops: Sequence[ForOp],
) -> Steps:
    """Return the strides of an operand's indices along the dimensions of its tile.

    Raises:
        Mismatch: the indices move along other dimensions than the intrinsic's.
    """
    operand, label = behaviour.operand(pattern.memref), value_label(access.memref)
    values = list(block.operands_)
    ranges = value_ranges(values)
    moving = {o.induction_variable: o.trip_count for o in loops}
    rows: dict[SSAValue, list[int]] = {o.induction_variable: [] for o in loops}
    for expr in _over_loops(access, block):
        steps, _ = _split(linear_sum(expr, ranges), values, moving)
        if steps is None:
            raise Mismatch(f"an index of {label} divides by a loop of the tile")
        for variable, row in rows.items():
            row.append(steps.get(variable, 0))
    by_axis = {
        axis.variable: rows[loop.induction_variable]
        for axis, loop in zip(behaviour.axes, loops, strict=True)
    }
    used = [pattern.indices[p] for e in pattern.map.data.results for p in e.used_dims()]
    for axis, loop in zip(behaviour.axes, loops, strict=True):
        name = value_label(loop.induction_variable)
        moves = any(by_axis[axis.variable])
        if moves and axis.variable not in used:
            raise Mismatch(
                f"{label} moves along {name} where the intrinsic's '{operand.name}' is the same "
                f"for all of '{axis.name}'"
            )
        is_output = pattern.memref is behaviour.buffers[0]
        if is_output and not moves and axis.variable in used and axis.extent > 1:
            raise Mismatch(
                f"{label} is the same for all of {name} where the intrinsic's output is not"
            )
    return tuple(tuple(by_axis[variable]) for variable in used)


def _over_loops(access: LoadOp | StoreOp, block: BlockOp) -> list[AffineExpr]:
    """Return an access's indices over the loops around the block."""
    bindings = dict(zip(block.iter_vars, block.bindings.data.results, strict=True))
    if any(v not in bindings for v in access.indices):
        raise Mismatch(f"an index of {value_label(access.memref)} is computed")
    dims = [bindings[v] for v in access.indices]
    return [substitute(expr, dims) for expr in access.map.data.results]
