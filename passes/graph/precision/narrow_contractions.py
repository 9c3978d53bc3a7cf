"""Replacement of contractions of centred 16-bit integers by contractions of bytes.

A walk by hand: the plan of a function is applied as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i8, i16, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tcopt.dialects.graph.contraction.base import ContractionOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import (
    Array,
    element_type,
    integer_range,
    shape_of,
    tensor,
)
from tcopt.dialects.graph.elementwise.arithmetic import AddOp, MulOp, SubOp
from tcopt.dialects.graph.elementwise.cast import CastOp
from tcopt.dialects.graph.elementwise.quantize import DequantizeOp, QuantizerOp
from tcopt.dialects.intrinsics import find_dot
from tcopt.dialects.target import accelerator_of, target_facts_of
from tcopt.passes.graph.folding.constants import Constants, EraseUnusedConstant
from tcopt.passes.graph.precision.byte_forms import U8, ByteForm, ByteOrigin
from tcopt.passes.graph.precision.byte_products import (
    FEWEST_ROWS,
    Forms,
    is_product,
    narrow_product,
)
from tcopt.passes.graph.precision.integer_ranges import IntegerRanges
from tcopt.passes.graph.precision.shifted_data import on_shifted
from tcopt.support.ir.rewriting import erase, function_bodies, rewrite, take_choices
from tcopt.support.remarks import remark


@dataclass(frozen=True)
class NarrowContractionsPass(ModulePass):
    """Store operands of contractions as bytes, on targets with dot products of bytes.

    Centred integers of 8-bit origin fit a byte if a shift is added, such as their zero point: the
    data is then what the model stores. The sums exceed those of centred integers by the shift times
    the sum of a channel's weights, a constant that is merged into the bias. Data is padded with the
    shift, which represents zero. Weights are centred integers that fit signed bytes; contractions
    whose weights do not fit are not changed, nor are any on targets without such dot products.

        %x = graph.requantize %s, %f, %zero {centered} : tensor<1x8x4x4xi16>
        %w = graph.constant @w : tensor<8x8x3x3xi16>
        %c = graph.conv %x, %w {pads = [1, 1, 1, 1], result_element = i32} : ...
        %y = graph.add %c, %bias : tensor<1x8x4x4xi32>
    ->
        %x = graph.requantize %s, %f, %zero : tensor<1x8x4x4xui8>
        %w = graph.constant @w.narrow : tensor<8x8x3x3xi8>
        %c = graph.conv %x, %w {pads = [1, 1, 1, 1], pad_value = 7, result_element = i32} : ...
        %y = graph.add %c, %less : tensor<1x8x4x4xi32>

    The signedness with a shift of zero is preferred, then the model's own. Ops that only select
    elements (pooling, reshaping, concatenation) work on the bytes, and other ops read centred
    integers converted from them. A shift may be known only at run time. Both operands of a product
    of two computed matrices are stored this way; sums of rows and columns then replace the
    constants.

    A module with an accelerator stores data in signed bytes, which the accelerator multiplies.

    """

    name = "narrow-contractions"
    moves_values: ClassVar[bool] = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_facts_of(op)
        if target is None:
            return
        elements = [e for e in (U8, i8) if find_dot(target.capabilities, (e, i8), i32)]
        if accelerator_of(op) is not None:
            # The accelerator's matrix unit takes signed bytes.
            elements = [i8]
        if not elements:
            return
        for body in function_bodies(op):
            narrowing = _Narrowing(body, elements, Constants(op))
            narrowing.carry_out(narrowing.plan())
        rewrite(op, [EraseUnusedConstant()])


@dataclass
class NarrowingPlan:
    """The values that contractions read as bytes, and their forms."""

    forms: dict[SSAValue, ByteForm]
    products: dict[ContractionOp, Forms] = field(default_factory=dict[ContractionOp, Forms])


class _Narrowing:
    """Narrowing of one function.

    Attributes:
        elements: byte types that the target's dot products take as data.
        weights: contractions with constant weights, and these as bytes.
        constants: byte constants that replace 16-bit weights.
        stored: bytes that replace centred integers, with their form.
        copies: bytes converted from centred integers that are kept.
    """

    def __init__(self, body: Block, elements: Sequence[Attribute], constants: Constants):
        self.body = body
        self.elements = elements
        self.source = constants
        self.ranges = IntegerRanges(constants)
        self.weights: dict[ContractionOp, Array] = {}
        self.constants: dict[SSAValue, SSAValue] = {}
        self.stored: dict[SSAValue, tuple[SSAValue, ByteForm]] = {}
        self.copies: dict[tuple[SSAValue, ByteForm], SSAValue] = {}

    def plan(self) -> NarrowingPlan:
        """Choose the form of each value that contractions read."""
        found: dict[SSAValue, list[ContractionOp]] = {}
        for op in self.body.ops:
            if isinstance(op, ContractionOp) and element_type(op.operands[0]) == i16:
                weights = self.bytes_of_weights(op)
                if weights is not None:
                    self.weights[op] = weights
                    found.setdefault(op.operands[0], []).append(op)
        forms = {data: self.form_of(data, users) for data, users in found.items()}
        known = {data: form for data, form in forms.items() if form is not None}
        return NarrowingPlan(known, self.products())

    def products(self) -> dict[ContractionOp, Forms]:
        """Return the products of two computed matrices, with the forms of both operands."""
        found: dict[ContractionOp, Forms] = {}
        for op in self.body.ops:
            if not is_product(op) or op in self.weights:
                continue
            if any(self.source.value(operand) is not None for operand in op.operands):
                continue
            left, right = (self.origin(operand) for operand in op.operands)
            second = None if right is None else right.form(i8)
            if left is None or right is None or second is None:
                continue
            is_copied = right.element != i8 and not isinstance(op.weights.owner, QuantizerOp)
            rows = op.shape[-2]
            if is_copied and rows < FEWEST_ROWS:
                text = f"{rows} rows do not pay for converting a matrix to signed bytes"
                remark(NarrowContractionsPass.name, op, text, missed=True)
                continue
            first = [form for e in self.elements if (form := left.form(e)) is not None]
            if first:
                found[op] = min(first, key=lambda form: not form.is_centred), second
        return found

    def carry_out(self, plan: NarrowingPlan) -> None:
        """Compute the planned contractions on bytes, and restore other uses of the values."""
        for op in tuple(self.body.ops):
            if not isinstance(op, ContractionOp):
                continue
            form = plan.forms.get(op.operands[0])
            if (forms := plan.products.get(op)) is not None:
                narrow_product(self, op, forms)
            elif form is not None and op in self.weights:
                self.rewrite(op, self.bytes_of(op.operands[0], form), form)
        self.restore_others()

    def restore_others(self) -> None:
        """Let the other users of values that were replaced by bytes read the bytes."""
        for value in reversed(list(self.stored)):
            self.restore(value)

    def bytes_of_weights(self, op: ContractionOp) -> Array | None:
        """Return constant weights as signed bytes; None if they do not fit."""
        if op.sum_element() != i32 or element_type(op.weights) != i16:
            return None
        array = self.source.value(op.weights)
        if array is None:
            return None
        low, high = integer_range(i8)
        if array.size and not low <= array.min() <= array.max() <= high:
            text = f"weights from {array.min()} to {array.max()} do not fit into signed bytes"
            remark(NarrowContractionsPass.name, op, text, missed=True)
            return None
        return array.astype(np.int8)

    # Forms

    def form_of(self, data: SSAValue, users: Collection[ContractionOp]) -> ByteForm | None:
        """Return the form that suits all contractions that read a value, or None."""
        form, missed = None, "data is not made of 8-bit integers"
        origin = self.origin(data)
        if origin is not None:
            found = [form for e in self.elements if (form := origin.form(e)) is not None]
            found.sort(key=lambda form: (not form.is_centred, form.element != origin.element))
            known = [f for f in found if f.is_centred or all(op.sums_shifts for op in users)]
            form, missed = (
                next(iter(known), None),
                "a shift of the data is not constant over the sums",
            )
        for use in data.uses:
            if isinstance(use.operation, ContractionOp) and use.operation not in users:
                form, missed = None, f"another {use.operation.name} needs 16 bits of the data"
        for op in users:
            text = missed if form is None else str(form)
            remark(NarrowContractionsPass.name, op, text, missed=form is None)
        return form

    def origin(self, value: SSAValue) -> ByteOrigin | None:
        """Return the origin of centred integers by their producers or their range, or None."""
        found, limits = self.traced(value), self.ranges.of(value)
        if found is not None or limits is None:
            return found
        return ByteOrigin(U8, limits, None) if limits[1] - limits[0] < 256 else None

    def traced(self, value: SSAValue) -> ByteOrigin | None:
        """Return the origin of a value that is bytes minus a zero point, or selected from these."""
        op = value.owner
        if isinstance(op, QuantizerOp):
            return self.origin_of(element_type(op.zero), op.zero) if op.is_centered else None
        if isinstance(op, CastOp):
            return self.origin_of(element_type(op.x), None)
        if isinstance(op, SubOp) and isinstance(op.lhs.owner, CastOp):
            return self.origin_of(element_type(op.lhs.owner.x), op.rhs)
        if not isinstance(op, GraphOp) or not op.selects:
            return None
        origins = [self.traced(operand) for operand in op.operands]
        total = origins[0]
        for other in origins[1:]:
            total = None if total is None or other is None else total.union(other)
        return total

    def origin_of(self, element: Attribute, zero: SSAValue | None) -> ByteOrigin | None:
        """Return the origin of integers of a type minus a zero point, or None."""
        if element not in (U8, i8):
            return None
        low, high = integer_range(element)
        number = 0 if zero is None else self.number(zero)
        if number is not None:
            return ByteOrigin(element, (low - number, high - number), None)
        assert zero is not None
        zero = _uncast(zero, element)
        if element_type(zero) != element or shape_of(zero) != ():
            return None
        return ByteOrigin(element, None, zero)

    def number(self, value: SSAValue) -> int | None:
        """Return the integer that all elements of a constant are equal to, or None."""
        array = self.ranges.array(value)
        if array is None or not array.size or (array != array.flat[0]).any():
            return None
        return int(array.flat[0])

    # Values as bytes

    def bytes_of(self, value: SSAValue, form: ByteForm) -> SSAValue:
        """Return the bytes of a value in a form: its producer rewritten, or a converted copy."""
        if value not in self.stored:
            made = self.made(value, form)
            if made is not None:
                made.name_hint = value.name_hint if made.name_hint is None else made.name_hint
                self.stored[value] = made, form
        if value in self.stored and self.stored[value][1] == form:
            return self.stored[value][0]
        if (value, form) not in self.copies:
            op = value.owner
            assert isinstance(op, Operation) and op.next_op is not None
            after = op.next_op
            shifted = value
            if not form.is_centred:
                shifted = self.insert(AddOp(value, self.shift(form, i16, after)), after)
            self.copies[value, form] = self.cast(shifted, form.element, after)
        return self.copies[value, form]

    def made(self, value: SSAValue, form: ByteForm) -> SSAValue | None:
        """Rewrite the producer of a value to store it in a form; None if the bytes would differ."""
        op = value.owner
        assert isinstance(op, GraphOp)
        origin = self.traced(value)
        if op.selects and origin is not None:
            parts = [self.bytes_of(operand, form) for operand in op.operands]
            return self.selected(op, parts, form)
        if origin is None or origin.form(form.element) != form:
            return None
        if isinstance(op, QuantizerOp):
            low = integer_range(form.element)[0]
            if origin.limits is not None and origin.limits[0] + form.offset != low:
                return None
            zero = self.shift(form, form.element, op)
            return self.insert(type(op)(op.x, op.scale, zero), op)
        cast = op.operands[0].owner if isinstance(op, SubOp) else op
        assert isinstance(cast, CastOp)
        is_same = origin.limits is None and form.offset == 0
        if origin.limits is not None:
            is_same = origin.limits[0] + form.offset == integer_range(origin.element)[0]
        return cast.x if is_same and origin.element == form.element else None

    def selected(self, op: GraphOp, operands: Sequence[SSAValue], form: ByteForm) -> SSAValue:
        """Return a selecting op applied to bytes."""
        result = tensor(op.shape, form.element)
        new = type(op).create(
            operands=operands, result_types=[result], properties={**op.properties}
        )
        return self.insert(new, op)

    def shift(self, form: ByteForm, element: Attribute, before: Operation) -> SSAValue:
        """Return a form's shift as a scalar of a type."""
        if form.zero is None:
            return self.insert(ConstantOp.literal(form.offset, element), before)
        if not form.offset:
            return self.cast(form.zero, element, before)
        wide = self.cast(form.zero, i16, before)
        offset = self.insert(ConstantOp.literal(form.offset, i16), before)
        return self.cast(self.insert(AddOp(wide, offset), before), element, before)

    def cast(self, value: SSAValue, element: Attribute, before: Operation) -> SSAValue:
        if element_type(value) == element:
            return value
        return self.insert(CastOp(value, element), before)

    # Contractions

    def rewrite(self, op: ContractionOp, data: SSAValue, form: ByteForm) -> None:
        """Compute a contraction on bytes, and subtract the shift's contribution from its sums."""
        array = self.weights[op]
        if op.weights not in self.constants:
            owner = op.weights.owner
            assert isinstance(owner, ConstantOp)
            constant = self.source.make(array, f"{owner.weight_name}.narrow")
            constant.location = owner.location
            self.body.insert_op_after(constant, owner)
            self.constants[op.weights] = constant.result
        shift = form.offset if form.zero is None else self.shift(form, form.element, op)
        ops = on_shifted(op, (data, self.constants[op.weights]), shift)
        for new in ops:
            self.insert(new, op)
        result = ops[-1].results[0]
        result.name_hint = op.results[0].name_hint
        if form.is_centred:
            self.replace(op, result)
        else:
            self.correct(op, result, array, shift)

    def correct(
        self, op: ContractionOp, result: SSAValue, weights: Array, shift: int | SSAValue
    ) -> None:
        """Replace an op's sums by those of bytes minus the shift's contribution per channel."""
        linear = op.linear_weight()
        assert linear is not None
        axes = tuple(axis for axis in range(weights.ndim) if axis != linear.axis)
        shape = (-1, *(1 for _ in op.shape[linear.channel + 1 :]))
        sums = weights.astype(np.int32).sum(axes, np.int32).reshape(shape)
        if isinstance(shift, SSAValue):
            each = self.insert(self.constant(sums), op)
            wide = self.cast(shift, i32, op)
            excess = self.insert(MulOp(each, wide), op)
            self.replace(op, self.insert(SubOp(result, excess), op))
            return
        less = np.int32(-shift) * sums
        last, bias = self.bias_of(op)
        if bias is not None:
            less = less + bias
        constant = self.insert(self.constant(less), last)
        self.replace(last, self.insert(AddOp(result, constant), last))
        if last is not op:
            erase(op)

    def bias_of(self, op: ContractionOp) -> tuple[GraphOp, Array | None]:
        """Return the op that alone uses a contraction's sums and adds a constant, and this one."""
        uses = list(op.results[0].uses)
        user = uses[0].operation if len(uses) == 1 else None
        if isinstance(user, AddOp) and user.type == op.type:
            bias = self.source.value(user.operands[1 - uses[0].index])
            if bias is not None:
                return user, bias
        return op, None

    # Other users

    def restore(self, value: SSAValue) -> None:
        """Let the other users of a value that is stored as bytes read the bytes."""
        narrow, form = self.stored[value]
        for use in list(value.uses):
            user = use.operation
            if user.parent is None:
                continue
            if isinstance(user, DequantizeOp) and use.index == 0 and self.number(user.zero) == 0:
                zero = self.shift(form, form.element, user)
                self.replace(user, self.insert(DequantizeOp(narrow, user.scale, zero), user))
            elif isinstance(user, AddOp) and self.adds_shift(user, use.index, form):
                for cast in [inner.operation for inner in user.results[0].uses]:
                    assert isinstance(cast, CastOp)
                    self.replace(cast, narrow)
            elif isinstance(user, GraphOp) and user.selects and len(user.operands) == 1:
                result = user.results[0]
                if result not in self.stored:
                    self.stored[result] = self.selected(user, (narrow,), form), form
                    self.restore(result)
            elif not (isinstance(user, GraphOp) and user.results[0] in self.stored):
                user.operands[use.index] = self.centred(narrow, form, user)
            self.erase_unused(user)
        if isinstance(value.owner, Operation):
            self.erase_unused(value.owner)

    def adds_shift(self, op: AddOp, place: int, form: ByteForm) -> bool:
        """Whether an op computes the bytes in 16 bits, and is only cast to bytes."""
        other = op.operands[1 - place]
        if form.zero is None:
            same = self.number(other) == form.offset
        else:
            same = form.offset == 0 and _uncast(other, form.element) is form.zero
        casts = [use.operation for use in op.results[0].uses]
        return same and all(
            isinstance(cast, CastOp) and element_type(cast.results[0]) == form.element
            for cast in casts
        )

    def centred(self, narrow: SSAValue, form: ByteForm, before: Operation) -> SSAValue:
        """Return centred integers converted from bytes."""
        wide = self.insert(CastOp(narrow, i16), before)
        if form.is_centred:
            return wide
        return self.insert(SubOp(wide, self.shift(form, i16, before)), before)

    # Edits

    def constant(self, value: Array) -> ConstantOp:
        return self.source.make(value, "shift")

    def insert(self, op: GraphOp | Operation, before: Operation) -> SSAValue:
        """Insert an op before another one, and return its result."""
        op.location = before.location
        self.body.insert_op_before(op, before)
        return op.results[0]

    def replace(self, op: GraphOp, value: SSAValue) -> None:
        """Replace an op's result by a value."""
        if value.name_hint is None:
            value.name_hint = op.results[0].name_hint
        if isinstance(value.owner, GraphOp):
            take_choices(value.owner, op)
        op.results[0].replace_all_uses_with(value)
        erase(op)

    def erase_unused(self, op: Operation) -> None:
        """Erase an op of the function if it is unused."""
        is_used = any(result.uses for result in op.results)
        if isinstance(op, GraphOp) and op.parent is not None and not is_used:
            erase(op)


def _uncast(value: SSAValue, element: Attribute) -> SSAValue:
    """Return the operand of a cast from another type, or the value itself."""
    op = value.owner
    return op.x if isinstance(op, CastOp) and element_type(value) != element else value
