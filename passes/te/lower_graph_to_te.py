"""Lowering of fused graphs to tensor expressions.

A walk by hand: each group is lowered with the tensors of the groups before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from tcopt.dialects.graph.control.group import PLACE, GroupOp, YieldOp
from tcopt.dialects.graph.core.attributes import FusionKind
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.dims import forget_dims
from tcopt.dialects.graph.core.forms import COUNTS_ON_ATTRIBUTE
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.dialects.graph.core.weights import WeightStore, weights_of
from tcopt.dialects.origins import ORIGIN, origin_attribute
from tcopt.dialects.size import dims_attr, extents_of, sized_tensor
from tcopt.dialects.target import TARGET_ATTRIBUTE, accelerator_of
from tcopt.dialects.te import CallOp, FuncOp
from tcopt.dialects.te import api as te
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.dialects.te.names import hint_of, symbols_of, unique_name
from tcopt.dialects.te.scalar import storage_type
from tcopt.dialects.te.tensor import Stage, Tensor, Uniform, topological
from tcopt.support.arithmetic.sizes import Size, upper_bound
from tcopt.support.errors import PassFailedError, UndecidedSize
from tcopt.support.ir.origins import Origin, node_names
from tcopt.support.ir.rewriting import erase, erase_unused
from tcopt.support.locations import is_known
from tcopt.support.memo import memo
from tcopt.support.syntax.canonical_text import canonical_text

OperandOf = tuple[Operation, int]
"""An op and the index of one of its operands."""


@dataclass(frozen=True)
class GroupUnit:
    """Operators that become one function: the body of a group, or one op outside of groups."""

    op: Operation
    body: tuple[GraphOp, ...]
    results: tuple[SSAValue, ...]

    @property
    def inputs(self) -> list[SSAValue]:
        """The external values that the body uses, in order of first use."""
        inner = {result for op in self.body for result in op.results}
        used = [operand for op in self.body for operand in op.operands]
        return [v for v in dict.fromkeys((*used, *self.results)) if v not in inner]


def unit_of(op: Operation) -> GroupUnit | None:
    """Return the unit of a top-level op; None for ops that stay in the host function."""
    if isinstance(op, GroupOp):
        *body, last = op.body.block.ops
        assert isinstance(last, YieldOp)
        return GroupUnit(op, tuple(o for o in body if isinstance(o, GraphOp)), tuple(last.values))
    if not isinstance(op, GraphOp) or isinstance(op, ConstantOp):
        return None
    in_place = op.is_view or op.is_joined or op.subview_offset is not None
    return None if in_place or op.is_opaque else GroupUnit(op, (op,), tuple(op.results))


def origin_of(unit: GroupUnit) -> Origin:
    """Return the origin of a function: nodes, kinds, results and work of its operators."""
    nodes = dict.fromkeys(name for op in unit.body for name in node_names(op.location))
    kinds = tuple(op.name.partition(".")[2] for op in unit.body)
    results = tuple(_type_text(_tensor_type(value)) for value in unit.results)
    return Origin(tuple(nodes), kinds, results, sum(op.work() for op in unit.body))


def _type_text(type: TensorType[Attribute]) -> str:
    return "x".join([*map(str, extents_of(type)), str(type.get_element_type())])


@dataclass(frozen=True)
class LowerGraphToTePass(ModulePass):
    """Define each fused group, and each operator outside of groups, as a `te.func`.

    Each operator's tensor expression defines its computation. Structurally equal groups share one
    function. Uniform constants become scalars in the function, unless they are factors of a
    contraction. If both operands of a contraction are the same value, they become two parameters.
    Constants, views and opaque operators stay in the host function.

        %y = graph.group kind = injective {
          %0 = graph.add %x, %b : tensor<8x4xf32>
          %1 = graph.relu %0 : tensor<8x4xf32>
          graph.yield %1 : tensor<8x4xf32>
        } : tensor<8x4xf32>
    ->
        te.func @fused_add_relu(%x: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
          %add = te.compute "add" [%i0 = 8, %i1 = 4] : tensor<8x4xf32> {...}
          %relu = te.compute "relu" [%i0 = 8, %i1 = 4] : tensor<8x4xf32> {...}
          te.return %relu : tensor<8x4xf32>
        }
        %y = te.call @fused_add_relu(%x, %b) : (tensor<8x4xf32>, tensor<4xf32>) -> ...

    A function lists the special forms of its operators for which there are schedule rules:
    `attributes {tcopt.counts_on = ["winograd"]}`.

    The function of a group with a `place` has the module's accelerator as its target
    (`tcopt.target`).

    Internally, unsigned types become signless, and narrow types (`te.narrow`) bytes:
    `builtin.unrealized_conversion_cast` in the host function marks where the type changes but not
    the bits. Names of dimensions (`graph.dims`) are dropped.

    Functions name their sizes `s0`, `s1`, ... and have an argument for each; calls give the values.
    A product of sizes becomes one size, so that indices stay affine:

        %y = graph.relu %x : tensor<4096xf32, #size.dims<batch[1:8] * length[1:512]>>
    ->
        te.func @relu(%x: tensor<4096xf32, #size.dims<s0[1:4096]>>, %s0: index) -> ...
            attributes {size.symbols = #size.dims<s0[1:4096]>} {...}
        %y = te.call @relu(%x) sizes <batch[1:8] * length[1:512]> : ...

    Options:
        origins: attach the origin to each call, for profiles and explanations: `tcopt.origin =
            {nodes = ["Add_3", "Relu_4"], ops = ["add", "relu"], results = ["8x4xf32"], work = 64}`.
    """

    name = "lower-graph-to-te"

    origins: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lowering = _Lowering(op, weights_of(op), self.origins)
        for function in list(op.ops):
            if isinstance(function, func.FuncOp) and function.body.blocks:
                for inner in list(function.body.block.ops):
                    unit = unit_of(inner)
                    if unit is not None:
                        lowering.lower(unit)
                erase_unused(function.body.block, ConstantOp)
                forget_dims(function)


class _Callee(NamedTuple):
    """A function, and the values of its sizes in calls for one kind of unit."""

    function: FuncOp
    sizes: tuple[Size, ...]


class _Lowering:
    """State of the pass for one module."""

    def __init__(self, module: ModuleOp, store: WeightStore | None, origins: bool):
        self.module = module
        self.store = store
        self.origins = origins
        self.functions: dict[Any, _Callee] = {}
        self.sized: dict[str, FuncOp] = {}
        """Functions with sizes, by their text without the name."""
        self.names = symbols_of(module)
        self.last: FuncOp | None = None

    def lower(self, unit: GroupUnit) -> None:
        """Replace a unit by a call of its function."""
        factors = _factors(unit)
        place = unit.op.attributes.get(PLACE)
        # Accelerators load tables from memory, whatever their values are.
        known = [v for v in unit.inputs if v not in factors and (place is None or not _is_table(v))]
        numbers = {v: n for v in known if (n := self.number(v)) is not None}
        params = [value for value in unit.inputs if value not in numbers]
        repeated = _repeated(unit, params)
        key = (place, _structure(unit, params, repeated, numbers))
        callee = self.functions.get(key)
        if callee is None:
            callee = self.functions[key] = self.define(unit, params, repeated, numbers)
            if place is not None:
                callee.function.attributes[TARGET_ATTRIBUTE] = self.accelerator(unit.op)
        call = CallOp(
            callee.function.sym_name.data,
            [self.signless(value, unit.op) for value in (*params, *repeated.values())],
            [_signless(_tensor_type(value)) for value in unit.results],
            dims_attr(callee.sizes),
        )
        call.location = unit.op.location
        if self.origins:
            call.attributes[ORIGIN] = origin_attribute(origin_of(unit))
        block = unit.op.parent
        assert block is not None
        block.insert_op_before(call, unit.op)
        for old, new in zip(unit.op.results, call.res, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(self.with_type(new, old.type, unit.op))
        erase(unit.op)

    def accelerator(self, op: Operation) -> Attribute:
        """Return the target of a function that is placed on the accelerator."""
        facts = accelerator_of(self.module)
        if facts is None or op.attributes[PLACE] != StringAttr(facts.kind):
            raise PassFailedError(
                f"{op.attributes[PLACE]} is not an accelerator of the module",
                op=op,
                hint="set-accelerator names one",
            )
        return facts

    def number(self, value: SSAValue) -> float | int | None:
        """Return the value of a small constant whose elements are all equal, or None."""
        constant = value.owner
        if not isinstance(constant, ConstantOp):
            return None
        array = constant.literal_value
        if array is None and constant.shape.count(1) == len(constant.shape) and self.store:
            array = self.store.get(constant.weight_name or "")
        if array is None or array.size == 0:
            return None
        first = array.flat[0]
        same = array.size == 1 or np.array_equal(array, np.broadcast_to(first, array.shape))
        return first.item() if same else None

    def signless(self, value: SSAValue, before: Operation) -> SSAValue:
        """Return `value` with a signless element type."""
        return self.with_type(value, _signless(_tensor_type(value)), before)

    def with_type(self, value: SSAValue, type: Attribute, before: Operation) -> SSAValue:
        """Return `value` as `type`, with a cast if the signedness differs."""
        if value.type == type:
            return value
        cast = UnrealizedConversionCastOp.get([value], [type])
        cast.location = before.location
        block = before.parent
        assert block is not None
        block.insert_op_before(cast, before)
        return cast.results[0]

    def define(
        self,
        unit: GroupUnit,
        params: Sequence[SSAValue],
        repeated: Mapping[OperandOf, SSAValue],
        numbers: dict[SSAValue, float | int],
    ) -> _Callee:
        """Return the `te.func` of a unit, added to the module, with the values of its sizes."""
        tensors = {value: _placeholder(value) for value in params}
        again = {use: _placeholder(value) for use, value in repeated.items()}
        inputs = [*tensors.values(), *again.values()]
        for value, number in numbers.items():
            type_ = _tensor_type(value)
            tensors[value] = Uniform(shape_of(value), type_.get_element_type(), number)
        for op in unit.body:
            _define_op(op, tensors, again)
        outputs = [_as_tensor(tensors[value]) for value in unit.results]
        sizes, name = FunctionSizes(), _function_name(unit.body)
        function = te.func(name, inputs, outputs, sizes)
        forms = dict.fromkeys(op.COUNTS_ON for op in unit.body if op.COUNTS_ON)
        if forms:
            function.attributes[COUNTS_ON_ATTRIBUTE] = ArrayAttr(map(StringAttr, forms))
        if sizes.values and PLACE not in unit.op.attributes:
            # Groups over other sizes of the model may have the same function.
            text = canonical_text(function, "f")
            if text in self.sized:
                return _Callee(self.sized[text], tuple(sizes.values))
            self.sized[text] = function
        function.sym_name = StringAttr(unique_name(name, self.names))
        function.location = unit.op.location
        self._add_function(function)
        return _Callee(function, tuple(sizes.values))

    def _add_function(self, function: FuncOp) -> None:
        block = self.module.body.block
        if self.last is not None:
            block.insert_op_after(function, self.last)
        elif block.first_op is not None:
            block.insert_op_before(function, block.first_op)
        else:
            block.add_op(function)
        self.last = function


def _is_table(value: SSAValue) -> bool:
    return math.prod(_tensor_type(value).get_shape()) > 1


def _factors(unit: GroupUnit) -> set[SSAValue]:
    """Return the operands of contractions, which stay parameters even if they are uniform: with
    scalars, the kernel would not be a contraction."""
    return {
        operand
        for op in unit.body
        if op.fusion_kind is FusionKind.COMPLEX_OUT_FUSABLE
        for operand in op.operands
        if math.prod(_tensor_type(operand).get_shape()) > 1
    }


def _repeated(unit: GroupUnit, params: Sequence[SSAValue]) -> dict[OperandOf, SSAValue]:
    """Return the operands of contractions that repeat another operand, as in `MatMul(x, x)`.

    They become separate parameters, so that each has one access pattern: schedules cache, pack and
    copy a buffer for one operand.
    """
    return {
        (op, place): operand
        for op in unit.body
        if op.fusion_kind is FusionKind.COMPLEX_OUT_FUSABLE
        for place, operand in enumerate(op.operands)
        if operand in params and operand in op.operands[:place]
    }


def _placeholder(value: SSAValue) -> Tensor:
    element = _tensor_type(value).get_element_type()
    return te.placeholder(shape_of(value), element, _parameter_name(value))


def _tensor_type(value: SSAValue) -> TensorType[Attribute]:
    return _checked_tensor(value.type)


@memo(8192)
def _checked_tensor(type: Attribute) -> TensorType[Attribute]:
    assert isa(type, TensorType[Attribute])
    return type


@memo(8192)
def _signless(type: TensorType[Attribute]) -> TensorType[Attribute]:
    element = type.get_element_type()
    kept = storage_type(element)
    return type if kept == element else sized_tensor(extents_of(type), kept)


def _as_tensor(tensor: Tensor) -> Tensor:
    """Return a uniform tensor as a stage, and others unchanged."""
    if isinstance(tensor, Uniform):
        value = te.const(tensor.value, tensor.dtype)
        return te.compute(tensor.shape, lambda *axes: value, name=tensor.name)
    return tensor


def _define_op(
    op: GraphOp, tensors: dict[SSAValue, Tensor], again: Mapping[OperandOf, Tensor]
) -> None:
    """Add the tensors of an op's results; new stages get its location."""
    operands = [again.get((op, at), tensors[v]) for at, v in enumerate(op.operands)]
    known = {id(tensor) for tensor in topological(list(tensors.values()))}
    try:
        defined = op.tensor_expression(*operands)
    except (te.ExpressionError, UndecidedSize, VerifyException, ValueError) as error:
        raise PassFailedError(f"has no tensor expression here: {error}", op=op) from error
    results: tuple[Tensor, ...] = defined if isinstance(defined, tuple) else (defined,)
    for value, tensor in zip(op.results, results, strict=True):
        type_ = _tensor_type(value)
        expected = (shape_of(value), type_.get_element_type())
        if (tensor.shape, tensor.dtype) != expected:
            raise PassFailedError(f"its tensor expression gives {tensor}, not {type_}", op=op)
        tensors[value] = tensor
    for tensor in topological(results):
        if isinstance(tensor, Stage) and id(tensor) not in known and not is_known(tensor.location):
            tensor.location = op.location


def _parameter_name(value: SSAValue) -> str:
    owner = value.owner
    if isinstance(owner, ConstantOp) and owner.weight_name is not None:
        return hint_of(owner.weight_name.rsplit(".", 1)[-1]) or "w"
    return value.name_hint or ("c" if isinstance(owner, ConstantOp) else "x")


_NAMED_OPS = 4


def _function_name(body: Sequence[GraphOp]) -> str:
    """Return a name made of the op with the most work and those after it: `fused_conv_add_relu`."""
    if not body:
        return "copy"
    heaviest = max(range(len(body)), key=lambda position: upper_bound(body[position].work()))
    first = min(heaviest, max(len(body) - _NAMED_OPS, 0))
    names = [op.name.rpartition(".")[2] for op in body[first : first + _NAMED_OPS]]
    unrepeated = [n for i, n in enumerate(names) if i == 0 or n != names[i - 1]]
    return "_".join(unrepeated if len(body) == 1 else ["fused", *unrepeated])


def _sorted(attributes: Mapping[str, Attribute]) -> tuple[tuple[str, Attribute], ...]:
    return tuple(sorted(attributes.items(), key=lambda item: item[0]))


def _structure(
    unit: GroupUnit,
    params: Sequence[SSAValue],
    repeated: Mapping[OperandOf, SSAValue],
    numbers: dict[SSAValue, float | int],
) -> Any:
    """Return a key that is equal for units with the same `te.func`."""
    where: dict[SSAValue, Any] = {value: ("in", i) for i, value in enumerate(params)}
    again = {use: ("in", i) for i, use in enumerate(repeated, len(params))}
    for value, number in numbers.items():
        where[value] = ("number", repr(number), value.type)
    ops: list[Any] = []
    for position, op in enumerate(unit.body):
        ops.append(
            (
                op.name,
                tuple(again.get((op, at), where[v]) for at, v in enumerate(op.operands)),
                _sorted(op.properties),
                _sorted(op.attributes),
                tuple(op.result_types),
            )
        )
        where |= {result: (position, i) for i, result in enumerate(op.results)}
    types = tuple(value.type for value in params)
    return types, tuple(ops), tuple(where[value] for value in unit.results)
