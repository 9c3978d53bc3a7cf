"""Loop over time: a function applied to successive slices, with loop-carried states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    eq,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import Pure, SymbolTable
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.attributes import flag, integer
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.types import (
    AnyTensor,
    Array,
    element_type,
    shape_of,
    shape_of_type,
    tensor,
    type_of,
    zeros,
)
from tcopt.dialects.size import DimsAttr, dims_attr
from tcopt.support.arithmetic.sizes import Extent, upper_bound

I64_NUMBER = IntegerAttr.constr(type=eq(i64))


class SinkConstants(RewritePattern):
    """Move constants that every step uses into the step's function, where they can be packed."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one scan."""
        if not isinstance(op, ScanOp):
            return
        step, fixed = op.step, op.state_count + op.scanned_count
        places = [
            place
            for place, value in enumerate(op.inputs)
            if place >= fixed and isinstance(value.owner, ConstantOp)
        ]
        if step is None or not places or _use_count(op, step) != 1:
            return
        block = step.body.block
        first = block.first_op
        assert first is not None
        for place in reversed(places):
            constant = op.inputs[place].owner
            assert isinstance(constant, ConstantOp)
            inner = constant.clone()
            inner.results[0].name_hint = constant.results[0].name_hint
            rewriter.insert(inner, InsertPoint.before(first))
            rewriter.replace_all_uses_with(block.args[place], inner.results[0])
            rewriter.erase_block_argument(block.args[place])
        step.function_type = FunctionType.from_lists(
            list(block.arg_types), list(step.function_type.outputs)
        )
        kept = [value for place, value in enumerate(op.inputs) if place not in places]
        properties = dict(op.properties)
        new = ScanOp.create(operands=kept, result_types=op.result_types, properties=properties)
        new.attributes.update(op.attributes)
        rewriter.replace(op, new)


@irdl_op_definition
class ScanOp(IRDLOperation, HasCanonicalizationPatternsInterface):
    """Apply the function @body `trip` times.

        %h, %ys = graph.scan @step(%h0, %xs, %w) {trip = 35, states = 1, scanned = 1}
            : (tensor<1x8xf32>, tensor<35x1x4xf32>, tensor<4x8xf32>)
            -> (tensor<1x8xf32>, tensor<35x1x8xf32>)

    Inputs are `states` initial states, `scanned` tensors [trip, ...] whose slice t is passed to
    step t, and loop-invariant values. The function takes the states, the slices and the invariants,
    and returns the next states and one slice of each further result. Results are the final states
    and the collected slices [trip, ...]. With `reverse`, slices are read and written from last to
    first. A trip count that is a size has its upper bound in `trip`:

        %h, %ys = graph.scan @step(%h0, %xs) {trip = 64, states = 1, scanned = 1} sizes <n[1:64]>
            : (tensor<1x8xf32>, tensor<64x1x4xf32, #size.dims<n[1:64], 1, 4>>)
            -> (tensor<1x8xf32>, tensor<64x1x8xf32, #size.dims<n[1:64], 1, 8>>)

    A `conditional` scan runs steps while its first state, a `tensor<i1>`, is true, and at most
    `trip`. Its last result is the number of steps that ran. Slices after these are undefined.

        %c, %ys, %count = graph.scan @step(%c0) {trip = 64, states = 1, scanned = 0} conditional
            : (tensor<i1>) -> (tensor<i1>, tensor<64x8xf32>, tensor<i64>)
    """

    name = "graph.scan"
    traits = traits_def(Pure())

    body = prop_def(SymbolRefAttr)
    trip = prop_def(I64_NUMBER)
    sizes = opt_prop_def(DimsAttr)
    states = prop_def(I64_NUMBER)
    scanned = prop_def(I64_NUMBER)
    reverse = opt_prop_def(UnitAttr)
    conditional = opt_prop_def(UnitAttr)
    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    assembly_format = (
        "$body `(` $inputs `)` ` ` `{` `trip` `=` $trip `,` `states` `=` $states `,` `scanned` "
        "`=` $scanned (`,` `reverse` $reverse^)? `}` (`conditional` $conditional^)? "
        "(`sizes` $sizes^)? attr-dict `:` functional-type($inputs, $outputs)"
    )

    def __init__(
        self,
        body: str,
        trip: Extent,
        states: Sequence[SSAValue],
        scanned: Sequence[SSAValue],
        fixed: Sequence[SSAValue],
        slices: Sequence[AnyTensor],
        *,
        reverse: bool = False,
        conditional: bool = False,
    ):
        """`slices` are the types of the function's results after the states."""
        collected = [tensor((trip, *shape_of_type(t)), t.element_type) for t in slices]
        count = [tensor((), i64)] if conditional else []
        super().__init__(
            operands=[[*states, *scanned, *fixed]],
            result_types=[[*(value.type for value in states), *collected, *count]],
            properties={
                "body": SymbolRefAttr(body),
                "trip": integer(upper_bound(trip)),
                "sizes": dims_attr([trip]),
                "states": integer(len(states)),
                "scanned": integer(len(scanned)),
                "reverse": flag(reverse),
                "conditional": flag(conditional),
            },
        )

    @property
    def trip_count(self) -> Extent:
        """Number of steps."""
        return self.trip.value.data if self.sizes is None else self.sizes.extents[0]

    @property
    def collected(self) -> Sequence[SSAValue]:
        """The results that consist of a slice of each step."""
        end = len(self.outputs) - (self.conditional is not None)
        return self.outputs[self.state_count : end]

    @property
    def state_count(self) -> int:
        """Number of loop-carried states."""
        return self.states.value.data

    @property
    def scanned_count(self) -> int:
        """Number of inputs that are passed slice by slice."""
        return self.scanned.value.data

    @property
    def step(self) -> func.FuncOp | None:
        """Function of a step; None if the module has no function of that name."""
        found = SymbolTable.lookup_symbol(self, self.body)
        return found if isinstance(found, func.FuncOp) else None

    def verify_(self) -> None:
        """Check that the function has the signature of a step."""
        trip, states, scanned = self.trip_count, self.state_count, self.scanned_count
        if self.sizes is not None and self.sizes.bounds != (self.trip.value.data,):
            raise VerifyException(f"trip must be the upper bound of {self.sizes}")
        if self.trip.value.data < 0 or states < 0 or scanned < 0:
            raise VerifyException("trip, states and scanned must not be negative")
        if len(self.inputs) < states + scanned or len(self.outputs) < states:
            raise VerifyException("fewer inputs or results than states and scanned inputs")
        step = self.step
        if step is None:
            raise VerifyException(f"there is no function {self.body}")
        if self.conditional is not None:
            self._verify_condition()
        results = self.outputs[: states + len(self.collected)]
        for value in (*self.inputs[states : states + scanned], *results[states:]):
            shape = shape_of(value)
            if not shape or shape[0] != trip:
                raise VerifyException(f"{value.type} does not hold {trip} slices")
        expected_inputs = [
            _slice_type(v) if states <= place < states + scanned else v.type
            for place, v in enumerate(self.inputs)
        ]
        expected_outputs = [
            _slice_type(v) if place >= states else v.type for place, v in enumerate(results)
        ]
        if [v.type for v in self.inputs[:states]] != expected_outputs[:states]:
            raise VerifyException("a step changes the type of a state")
        expected = FunctionType.from_lists(expected_inputs, expected_outputs)
        if step.function_type != expected:
            raise VerifyException(f"{self.body} has type {step.function_type}, not {expected}")

    def _verify_condition(self) -> None:
        if self.reverse is not None:
            raise VerifyException("the last slice of a conditional scan is not known")
        if not self.state_count or self.inputs[0].type != tensor((), i1):
            raise VerifyException("the first state of a conditional scan must be a tensor<i1>")
        if self.outputs[-1].type != tensor((), i64):
            raise VerifyException("the last result of a conditional scan must be a tensor<i64>")

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        """Return the pattern that moves constants into the function."""
        return (SinkConstants(),)


def run_scan(
    op: ScanOp, inputs: Sequence[Array], step: Callable[[Sequence[Array]], Sequence[Array]]
) -> list[Array]:
    """Evaluate a scan with numpy, given a function that runs one step."""
    count, scanned = op.state_count, op.state_count + op.scanned_count
    states = list(inputs[:count])
    collected: dict[int, list[Array]] = {}
    trip = op.trip_count
    assert isinstance(trip, int), "sizes are fixed before a program runs"
    is_conditional = op.conditional is not None
    for position in range(trip):
        if is_conditional and not states[0]:
            break
        place = trip - 1 - position if op.reverse is not None else position
        slices = [array[place] for array in inputs[count:scanned]]
        results = step([*states, *slices, *inputs[scanned:]])
        states, collected[place] = list(results[:count]), list(results[count:])
    results = [zeros(type_of(value)) for value in op.collected]
    for place, rows in collected.items():
        for result, row in zip(results, rows, strict=True):
            result[place] = row
    return [*states, *results, *([np.array(len(collected), np.int64)] if is_conditional else [])]


def _slice_type(value: SSAValue) -> Attribute:
    return tensor(shape_of(value)[1:], element_type(value))


def _use_count(scan: ScanOp, step: func.FuncOp) -> int:
    module = step.parent_op()
    assert module is not None
    return sum(isinstance(op, ScanOp) and op.body == scan.body for op in module.walk())
