"""promote-registers: small stack buffers become SSA values.

A walk by hand: the value of each register is threaded through loops and branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from tcopt.dialects import arith_, vector_
from tcopt.passes.kernel.registers.register_slots import Promotion, Slot, SlotAccess, analyse
from tcopt.support.ir.rewriting import erase

_Values = dict[Slot, SSAValue]


@dataclass(frozen=True)
class PromoteRegistersPass(ModulePass):
    """Replaces `memref.alloca` buffers that are only accessed at constant indices.

    Each accessed element or vector becomes an SSA value, carried through `scf.for` as an iteration
    argument and out of `scf.if` as a result. A scalar access to a vector becomes `vector.extract`
    or `vector.insert`, a masked store a select. A buffer is not promoted if an index is not
    constant, accesses partly overlap, another op uses it, it is used inside a region other than a
    loop's or branch's, or a block's threads share it. Uninitialised memory is zero.

    ```mlir
    %acc = memref.alloca() : memref<16xf32>
    vector.store %zero, %acc[%c0] : memref<16xf32>, vector<16xf32>
    scf.for %k = %c0 to %c8 step %c1 {
      %a = vector.load %acc[%c0] : memref<16xf32>, vector<16xf32>
      %b = arith.addf %a, %x : vector<16xf32>
      vector.store %b, %acc[%c0] : memref<16xf32>, vector<16xf32>
    }
    ```
    becomes
    ```mlir
    %r = scf.for %k = %c0 to %c8 step %c1 iter_args(%a = %zero) -> (vector<16xf32>) {
      %b = arith.addf %a, %x : vector<16xf32>
      scf.yield %b : vector<16xf32>
    }
    ```
    """

    name = "promote-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                promotion = analyse(function)
                if promotion.slots:
                    rewriter = _Rewriter(promotion)
                    for block in function.body.blocks:
                        rewriter.rewrite_block(block, {})
                    rewriter.erase_dead()


@dataclass
class _Rewriter:
    """A forward walk that tracks the current value of every slot."""

    promotion: Promotion
    dead: list[Operation] = field(default_factory=list[Operation])
    zeros: dict[tuple[Operation, Attribute], SSAValue] = field(
        default_factory=dict[tuple[Operation, Attribute], SSAValue]
    )

    def rewrite_block(self, block: Block, values: _Values) -> None:
        """Rewrite the accesses in a block; `values` is updated to the state at its end."""
        promotion = self.promotion
        for op in tuple(block.ops):
            access = promotion.accesses.get(op)
            if access is not None:
                self._rewrite_access(op, access, values)
            elif op in promotion.slots:
                self.dead.append(op)
            elif op in promotion.used_inside:
                self._rewrite_regions(op, values)

    def erase_dead(self) -> None:
        """Erase the buffers, which have no accesses left."""
        for op in self.dead:
            erase(op)

    def _rewrite_regions(self, op: Operation, values: _Values) -> None:
        carried = list(self.promotion.stored_inside.get(op, ()))
        if isinstance(op, scf.ForOp) and carried:
            self._rewrite_for(op, carried, values)
        elif isinstance(op, scf.IfOp) and carried:
            self._rewrite_if(op, carried, values)
        else:
            for region in op.regions:
                for block in region.blocks:
                    self.rewrite_block(block, dict(values))

    def _rewrite_for(self, op: scf.ForOp, carried: list[Slot], values: _Values) -> None:
        initial = [self._current(slot, values) for slot in carried]
        body = op.body.block
        inside = dict(values)
        for slot in carried:
            argument = body.insert_arg(slot.type, len(body.args))
            argument.name_hint = slot.name_hint
            inside[slot] = argument
        self.rewrite_block(body, inside)
        _extend_yield(body, [inside[slot] for slot in carried])
        new = scf.ForOp(op.lb, op.ub, op.step, [*op.iter_args, *initial], op.detach_region(op.body))
        self._replace(op, new, carried, values)

    def _rewrite_if(self, op: scf.IfOp, carried: list[Slot], values: _Values) -> None:
        for slot in carried:
            values[slot] = self._current(slot, values)
        if not op.false_region.blocks:
            op.false_region.add_block(Block([scf.YieldOp()]))
        for region in op.regions:
            inside = dict(values)
            self.rewrite_block(region.block, inside)
            _extend_yield(region.block, [inside[slot] for slot in carried])
        then, otherwise = (op.detach_region(region) for region in tuple(op.regions))
        types = [*op.result_types, *(slot.type for slot in carried)]
        self._replace(op, scf.IfOp(op.cond, types, then, otherwise), carried, values)

    def _replace(
        self, old: Operation, new: Operation, carried: list[Slot], values: _Values
    ) -> None:
        """Replace an op by `new`, whose last results are the values of the carried slots."""
        new.attributes |= old.attributes
        new.location = old.location
        block = old.parent
        assert block is not None
        block.insert_op_before(new, old)
        kept = len(old.results)
        for before, after in zip(old.results, new.results, strict=False):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
        for slot, result in zip(carried, new.results[kept:], strict=True):
            result.name_hint = slot.name_hint
            values[slot] = result
        erase(old)

    def _current(self, slot: Slot, values: _Values) -> SSAValue:
        """Return the value of a slot; without a store, a zero at the buffer's allocation."""
        known = values.get(slot)
        if known is not None:
            return known
        key = (slot.alloca, slot.type)
        if key not in self.zeros:
            zero = arith.ConstantOp(_zero(slot.type))
            block = slot.alloca.parent
            assert block is not None
            block.insert_op_before(zero, slot.alloca)
            self.zeros[key] = zero.result
        values[slot] = self.zeros[key]
        return values[slot]

    def _rewrite_access(self, op: Operation, access: SlotAccess, values: _Values) -> None:
        new: list[Operation] = []
        current = self._current(access.slot, values) if _reads(op, access) else None
        match op:
            case memref.LoadOp() | vector.LoadOp():
                assert current is not None
                result = _part(current, access, new)
            case vector.MaskedLoadOp():
                assert current is not None
                part = _part(current, access, new)
                new.append(arith_.SelectOp(op.mask, part, op.pass_thru))
                result = new[-1].results[0]
            case memref.StoreOp():
                values[access.slot] = _with_part(current, op.value, access, new)
                result = None
            case vector.StoreOp():
                values[access.slot] = _with_part(current, op.vector, access, new)
                result = None
            case vector.MaskedStoreOp():
                assert current is not None
                part = _part(current, access, new)
                select = arith_.SelectOp(op.mask, op.value_to_store, part)
                new.append(select)
                values[access.slot] = _with_part(current, select.result, access, new)
                result = None
            case _:
                raise AssertionError(f"{op.name} is not an access")
        block = op.parent
        assert block is not None
        block.insert_ops_before(new, op)
        if result is not None:
            if new and op.results[0].name_hint:
                result.name_hint = op.results[0].name_hint
            op.results[0].replace_all_uses_with(result)
        erase(op)


def _reads(op: Operation, access: SlotAccess) -> bool:
    """Whether an access reads the slot's current value."""
    whole_store = isinstance(op, memref.StoreOp | vector.StoreOp)
    return not whole_store or access.type != access.slot.type


def _part(current: SSAValue, access: SlotAccess, new: list[Operation]) -> SSAValue:
    """Return the accessed part of a slot's value."""
    if access.type == access.slot.type:
        return current
    if isa(access.type, VectorType):
        size = access.type.get_shape()[0]
        new.append(vector_.ExtractStridedSliceOp(current, [access.offset], [size]))
    else:
        new.append(vector.ExtractOp(current, [access.offset], access.type))
    return new[-1].results[0]


def _with_part(
    current: SSAValue | None, value: SSAValue, access: SlotAccess, new: list[Operation]
) -> SSAValue:
    """Return a slot's value with the accessed part replaced."""
    if access.type == access.slot.type:
        return value
    assert current is not None
    if isa(access.type, VectorType):
        new.append(vector_.InsertStridedSliceOp(value, current, [access.offset]))
    else:
        new.append(vector.InsertOp(value, current, [access.offset]))
    return new[-1].results[0]


def _extend_yield(block: Block, values: list[SSAValue]) -> None:
    """Yield further values at the end of a block."""
    terminator = block.last_op
    if not isinstance(terminator, scf.YieldOp):
        # The terminator of a region that yields nothing may be missing.
        block.add_op(scf.YieldOp(*values))
        return
    terminator.operands = [*terminator.operands, *values]


def _zero(type: Attribute) -> IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr:
    """Return the zero constant of a scalar or vector type."""
    if isa(type, VectorType):
        element = type.element_type
        zero = 0.0 if isinstance(element, AnyFloat) else 0
        return DenseIntOrFPElementsAttr.from_list(type, [zero])  # pyright: ignore
    if isinstance(type, AnyFloat):
        return FloatAttr(0.0, type)
    return IntegerAttr(0, type)  # pyright: ignore
