"""Epilogues on the ALU of an accelerator, computed while sums are in its registers.

Each step is a block with one operation (`split-operations`): sums combined with a constant or with
registers, bytes extended into registers, registers set to zero, or the store of results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8, i32
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Commutative

from tcopt.dialects.arith_ import ExtSIOp, TruncIOp
from tcopt.dialects.intrinsics import intrinsic
from tcopt.dialects.intrinsics.vdla import ALU_CODES, PRODUCT, alu_name
from tcopt.dialects.loop import BlockOp, LoadOp, StoreOp
from tcopt.dialects.target import VdlaTargetAttr
from tcopt.schedules.analysis.behaviours import behaviour_of
from tcopt.schedules.analysis.patterns import BlockPattern, StridedAccess, match_block
from tcopt.schedules.api.handles import Block, Loop
from tcopt.schedules.api.schedule import Schedule
from tcopt.schedules.rules.rule import Declined
from tcopt.schedules.rules.vdla.layouts import VdlaLayout, element_of
from tcopt.schedules.state.state import alloc_of
from tcopt.support.errors import InputError, UnsupportedError

ALU, LOAD, ZERO, STORE = "alu", "load", "zero", "store"


@dataclass(frozen=True)
class EpilogueStep:
    """One block of an epilogue.

    Attributes:
        kind: `ALU`, `LOAD` of bytes into registers, `ZERO` of registers, or `STORE`.
        intrinsic: name of the intrinsic that computes it.
        over: position of the read buffer that the result overwrites.
        table: position of the read buffer that is loaded into registers, with its layout.
        data: layout of the bytes that a load reads.
        is_early: whether it precedes the sums in program order.
        has_number: whether the ALU combines with a constant instead of registers.
    """

    block: Block
    kind: str
    intrinsic: str
    over: int | None = None
    table: tuple[int, VdlaLayout] | None = None
    data: VdlaLayout | None = None
    is_early: bool = False
    has_number: bool = True


@dataclass(frozen=True)
class Epilogue:
    """The steps in program order; empty if sums are the results."""

    steps: tuple[EpilogueStep, ...] = ()

    @property
    def registers(self) -> int:
        """Number of additional sets of registers as large as the sums."""
        return sum(step.kind in (LOAD, ZERO) for step in self.steps)

    @property
    def tables(self) -> tuple[VdlaLayout, ...]:
        """Layouts of the operands that are loaded into registers once for many pixels."""
        return tuple(step.table[1] for step in self.steps if step.table is not None)

    @property
    def stores_bytes(self) -> bool:
        """Whether results are the low bytes of registers."""
        return any(step.kind == STORE for step in self.steps)


def find_epilogue(
    sch: Schedule, sums: Block, pattern: BlockPattern, facts: VdlaTargetAttr, padding: Block | None
) -> Epilogue | Declined:
    """Return the steps around a contraction, or decline if the ALU cannot compute them."""
    names = [block for block in sch.blocks() if block != padding]
    place = names.index(sums)
    steps: list[EpilogueStep] = []
    for position, block in enumerate(names):
        if block == sums:
            continue
        step = _step(sch, block, pattern, facts, is_early=position < place)
        if isinstance(step, Declined):
            return step
        if not _is_there(step.intrinsic, facts):
            return Declined(f"the accelerator has no '{step.intrinsic}'")
        steps.append(step)
    if any(step.kind == STORE for step in steps[:-1]):
        return Declined("something is computed from its results")
    return Epilogue(tuple(steps))


def _is_there(name: str, facts: VdlaTargetAttr) -> bool:
    """Whether the machine has an intrinsic; constants outside of their range have none."""
    try:
        return intrinsic(name).is_on(facts.capabilities)
    except (InputError, UnsupportedError):
        return False


def _step(
    sch: Schedule, block: Block, sums: BlockPattern, facts: VdlaTargetAttr, *, is_early: bool
) -> EpilogueStep | Declined:
    op = sch.block_op(block)
    pattern = match_block(op)
    unit, lanes, _ = facts.unit
    if (
        pattern is None
        or op.is_reduction
        or op.domain != tuple(sums.extents[v] for v in sums.spatial)
        or not _is_own_place(pattern.store, op.domain)
    ):
        return Declined(f"{op.block_name.data} is not computed element by element from its sums")
    work = [each for each in op.body.block.ops if not isinstance(each, _ACCESSES)]
    value = _stored(op).owner
    if not work and _number(_stored(op)) == 0:
        return EpilogueStep(block, ZERO, f"vdla_reset_{unit}x{lanes}", is_early=is_early)
    if len(work) == 1 and work[0] is value:
        if isinstance(work[0], ExtSIOp | TruncIOp):
            return _conversion(block, work[0], pattern, sums, facts, is_early=is_early)
        if element_of(pattern.store.buffer) == i32:
            return _alu(block, work[0], pattern, sums, facts, is_early=is_early)
    if [each.name for each in work] == _product_names():
        return _product(block, pattern, sums, facts, is_early=is_early)
    return Declined(f"{op.block_name.data} is not an operation of the alu")


_ACCESSES = (LoadOp, StoreOp, arith.ConstantOp)


def _conversion(
    block: Block,
    work: ExtSIOp | TruncIOp,
    pattern: BlockPattern,
    sums: BlockPattern,
    facts: VdlaTargetAttr,
    *,
    is_early: bool,
) -> EpilogueStep | Declined:
    """Match the load of an argument's bytes into registers, or the store of registers as bytes."""
    unit, lanes, _ = facts.unit
    (term,) = pattern.terms
    outer = alloc_of(term.buffer), alloc_of(pattern.store.buffer)
    types = element_of(term.buffer), element_of(pattern.store.buffer)
    if isinstance(work, ExtSIOp) and types == (i8, i32) and outer[0] is None:
        name, layout = f"vdla_load_acc8_{unit}x{lanes}", _layout(term, sums)
        return EpilogueStep(block, LOAD, name, data=layout, is_early=is_early)
    if isinstance(work, TruncIOp) and types == (i32, i8) and outer[1] is None:
        return EpilogueStep(block, STORE, f"vdla_store_out_{unit}x{lanes}", is_early=is_early)
    return Declined(f"{block.name} converts values that are neither loaded nor stored")


@cache
def _product_names() -> list[str]:
    """Return the names of the ops that compute the high half of a product."""
    body = behaviour_of(alu_name(PRODUCT, (1, 1))).block.body.block
    return [each.name for each in body.ops if not isinstance(each, _ACCESSES)]


def _product(
    block: Block,
    pattern: BlockPattern,
    sums: BlockPattern,
    facts: VdlaTargetAttr,
    *,
    is_early: bool,
) -> EpilogueStep | Declined:
    """Match the high halves of products of registers."""
    unit, lanes, _ = facts.unit
    for first, second in (pattern.terms, pattern.terms[::-1]):
        found = _with_register(block, PRODUCT, (first, second), pattern, sums, is_early=is_early)
        if found is not None:
            return replace(found, intrinsic=alu_name(PRODUCT, (unit, lanes)))
    return Declined(f"{block.name} does not multiply registers")


def _with_register(
    block: Block,
    code: str,
    terms: tuple[StridedAccess, StridedAccess],
    pattern: BlockPattern,
    sums: BlockPattern,
    *,
    is_early: bool,
) -> EpilogueStep | None:
    """Match registers combined with others, which may be loaded; None if it cannot be in place."""
    read = list(dict.fromkeys(term.buffer for term in pattern.terms))
    old, other = terms
    if not _may_be_over(old, pattern, block) or element_of(other.buffer) != i32:
        return None
    table = None
    if alloc_of(other.buffer) is None:
        table = read.index(other.buffer), _layout(other, sums)
    elif not _is_own_place(other, pattern.extents):
        return None
    over = read.index(old.buffer)
    return EpilogueStep(block, ALU, code, over, table, None, is_early, has_number=False)


def _alu(
    block: Block,
    work: Operation,
    pattern: BlockPattern,
    sums: BlockPattern,
    facts: VdlaTargetAttr,
    *,
    is_early: bool,
) -> EpilogueStep | Declined:
    """Match registers combined in place with a constant or with registers."""
    unit, lanes, _ = facts.unit
    code, sign = alu_operations().get(work.name, ("", 1))
    reason = Declined(f"{block.name} is not an operation of the alu")
    if not code or len(work.operands) != 2:
        return reason
    read = list(dict.fromkeys(term.buffer for term in pattern.terms))
    orders = (
        [work.operands, work.operands[::-1]] if work.has_trait(Commutative) else [work.operands]
    )
    for old, other in orders:
        term = next((t for t in pattern.terms if t.op.results[:1] == (old,)), None)
        if term is None or not _may_be_over(term, pattern, block):
            continue
        number = _number(other)
        if number is not None:
            name = alu_name(code, (unit, lanes), sign * number)
            return EpilogueStep(block, ALU, name, over=read.index(term.buffer), is_early=is_early)
        with_register = next((t for t in pattern.terms if t.op.results[:1] == (other,)), None)
        if with_register is None or sign < 0:
            continue
        terms = term, with_register
        found = _with_register(block, code, terms, pattern, sums, is_early=is_early)
        if found is not None:
            return replace(found, intrinsic=alu_name(code, (unit, lanes)))
    return reason


def _layout(access: StridedAccess, sums: BlockPattern) -> VdlaLayout:
    """Return the layout of a block's operand by the variables of the sums."""
    plain = VdlaLayout.plain(access)
    none = (0,) * len(plain.shape)
    steps = dict(zip(sums.spatial, plain.steps, strict=True))
    return replace(plain, steps=tuple(steps.get(v, none) for v in sums.variables))


@cache
def alu_operations() -> dict[str, tuple[str, int]]:
    """Return the ALU operations by name of the IR op that they compute.

    The sign applies to constants: a left shift is a shift by a negative number.
    """
    found: dict[str, tuple[str, int]] = {}
    for code in ALU_CODES:
        for sign in (-1, 1):
            stored = _stored(behaviour_of(alu_name(code, (1, 1), sign)).block).owner
            assert isinstance(stored, Operation)
            found[stored.name] = code, sign
    return found


def _may_be_over(term: StridedAccess, pattern: BlockPattern, block: Block) -> bool:
    """Whether a block's result may overwrite a buffer that it reads."""
    alloc, own = alloc_of(term.buffer), pattern.store.buffer
    if alloc is None or not _is_own_place(term, pattern.extents):
        return False
    if alloc_of(own) is not None and own.type != term.buffer.type:
        return False
    reader = term.op.parent_op()
    later = [use.operation for use in term.buffer.uses if use.operation is not term.op]
    holder = _outermost(reader)
    return all(not holder.is_before_in_block(_outermost(other)) for other in later)


def _outermost(op: Operation | None) -> Operation:
    """Return the op in the function's body that contains an op."""
    assert op is not None
    while (parent := op.parent_op()) is not None and parent.parent_op() is not None:
        if parent.name == "loop.func":
            break
        op = parent
    return op


def _is_own_place(access: StridedAccess, domain: Sequence[int]) -> bool:
    """Whether the indices of an access are the block's variables, in order."""
    return all(
        extent == 1 or steps == tuple(int(dim == v) for dim in range(len(domain)))
        for v, (extent, steps) in enumerate(zip(domain, access.steps, strict=True))
    )


def _stored(block: BlockOp) -> SSAValue:
    """Return the value that a block stores."""
    (store,) = (op for op in block.body.block.ops if isinstance(op, StoreOp))
    return store.value


def _number(value: SSAValue) -> int | None:
    """Return the value of an integer constant; None for other values."""
    constant = value.owner
    if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, IntegerAttr):
        return constant.value.value.data
    return None


def load_tables(sch: Schedule, epilogue: Epilogue) -> list[Block]:
    """Load operands from memory into registers; return the blocks that load them."""
    return [
        sch.cache_read(step.block, step.table[0], "acc_register")
        for step in epilogue.steps
        if step.table is not None
    ]


def step_cycles(step: EpilogueStep, facts: VdlaTargetAttr) -> int:
    """Return the cycles of the compute unit per register entry, excluding loads."""
    if step.kind == ALU:
        return facts.alu_imm.data if step.has_number else facts.alu_reg.data
    return facts.gemm_cycles.data if step.kind == ZERO else 0


def move_steps(sch: Schedule, epilogue: Epilogue, store: Block, loop: Loop) -> None:
    """Move the steps into a loop, so that they are computed piece by piece."""
    steps = epilogue.steps
    late = [step.block for step in steps if not step.is_early and step.block != store]
    for each in (*late, store):
        sch.reverse_compute_at(each, loop)
    for step in reversed(steps):
        if step.is_early:
            sch.compute_at(step.block, loop)
