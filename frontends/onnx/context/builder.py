"""Collects graph ops while a model is imported, and knows which values are constants.

Exporters compute shapes with ordinary operators: Shape, Gather, Concat, Cast and so on.
Shapes are static here, so those chains are constants. `GraphBuilder.emit` evaluates every
op whose operands are small known values instead of keeping it; handlers then find shapes
and axes through `known`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from onnx import SparseTensorProto
from xdsl.dialects.builtin import FunctionType, LocationAttr, NameLoc, NoneAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tcopt.dialects.graph import AndOp, ConstantOp, NotOp, ReshapeOp
from tcopt.dialects.graph.interfaces import GraphOp
from tcopt.dialects.graph.scan import ScanOp
from tcopt.dialects.graph.types import (
    element_of,
    is_float,
    like,
    numpy_dtype,
    shape_of,
    tensor,
    type_of,
)
from tcopt.dialects.graph.weights import WeightStore
from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.frontends.onnx.model.initializers import Weight
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, Limits
from tcopt.frontends.onnx.model.tensors import TensorReader
from tcopt.support.errors import ImportModelError, UnsupportedError
from tcopt.support.strings import TEXT, StringTable, is_text, strings_in

# Shape computations are short; anything longer than a limit is data and stays an op.
FLOAT_FOLD_LIMIT = 16
# Constants up to this size are written in the IR's text, longer ones are weights.
LITERAL_LIMIT = 64
# What numpy's arrays have at most, in which results are given.
MOST_DIMENSIONS = 64


class GraphBuilder:
    """Appends ops to one block.

    Attributes:
        known: values that are constants, with their arrays.
        weights: where large constants go.
        functions: private functions that the ops of the block refer to.
        limits: of tensors and of what is folded.
        location: given to the ops emitted next.
        extents: of values of which only the first elements are valid, the extents; see `stages`.
        may_bound: whether there may be such values.
        depth: how deeply the node whose ops are emitted is nested in functions and bodies.
        checks: conditions that refuse a run where they are true, with what is wrong then.
        sequence_items: how many tensors the sequences that were made hold, each for itself.
        strings: those of the model, by the places that stand for them.
        texts: values that are places of strings.
        measured: what earlier stages computed in order to know shapes, see `stages`.
        key: of random numbers, if some are drawn.
        is_main: whether ops are those of @main, not of the step of a loop.
    """

    def __init__(
        self,
        block: Block,
        weights: WeightStore,
        reader: TensorReader,
        limits: Limits = DEFAULT_LIMITS,
    ):
        self.block = block
        self.weights = weights
        self.reader = reader
        self.limits = limits
        self.known: dict[SSAValue, np.ndarray] = {}
        self.functions: list[FuncOp] = []
        self.location: LocationAttr = named_location("model")
        self.extents: dict[SSAValue, SSAValue] = {}
        self.may_bound = False
        self.depth = 0
        self.checks: list[tuple[str, SSAValue]] = []
        self.sequence_items = 0
        self.strings = StringTable()
        self.texts: set[SSAValue] = set()
        self.measured: dict[str, SSAValue] = {}
        self.key: SSAValue | None = None
        self.is_main = True
        self._argument_names: dict[SSAValue, str] = {}
        # Weights with a name are data to keep, however small: they fold nothing.
        self._named: set[SSAValue] = set()

    def function(self, name: str, types: Sequence[Attribute]) -> GraphBuilder:
        """A builder for the body of a new private function with arguments of these types."""
        inner = GraphBuilder(Block(arg_types=types), self.weights, self.reader, self.limits)
        inner.functions = self.functions
        inner.strings, inner.texts = self.strings, self.texts
        inner.is_main = False
        inner.sequence_items = self.sequence_items
        inner.location = self.location
        taken = sum(f.sym_name.data.startswith(name) for f in self.functions)
        signature = FunctionType.from_lists(types, [])
        symbol = f"{name}_{taken}" if taken else name
        function = FuncOp(symbol, signature, Region(inner.block), StringAttr("private"))
        function.location = self.location
        self.functions.append(function)
        return inner

    def random_key(self) -> SSAValue | None:
        """The key of a run's random numbers, an argument of the block; None inside of a loop."""
        if self.key is None and self.is_main:
            self.key = self.block.insert_arg(tensor((1,), i64), len(self.block.args))
            self.key.name_hint = "random_key"
        return self.key

    def finish(self, results: Sequence[SSAValue]) -> FuncOp:
        """End the function whose body this builder wrote."""
        self.block.add_op(ReturnOp(*results))
        self.erase_unused()
        function = self.block.parent_op()
        assert isinstance(function, FuncOp)
        function.function_type = FunctionType.from_lists(
            list(self.block.arg_types), [value.type for value in results]
        )
        return function

    def narrow_checks(self, first: int, condition: SSAValue, holds: bool) -> None:
        """Let the checks from number `first` on count only where a condition is what it says."""
        for place in range(first, len(self.checks)):
            message, refused = self.checks[place]
            taken = self.emit(ReshapeOp(condition, (1,)))
            if not holds:
                taken = self.emit(NotOp(taken))
            self.checks[place] = message, self.emit(AndOp(taken, refused))

    def append(self, op: Operation) -> list[SSAValue]:
        """Add an op as it is; its results."""
        op.location = self.location
        self.block.add_op(op)
        return list(op.results)

    def append_steps(self, op: Operation, inner: GraphBuilder) -> list[SSAValue]:
        """Add a loop over the function that `inner` wrote, which returns its checks last."""
        results = self.append(op)
        count = len(results) - len(inner.checks)
        messages = (message for message, _ in inner.checks)
        self.checks += zip(messages, results[count:], strict=True)
        return results[:count]

    def add_argument(self, value: SSAValue, name: str) -> None:
        """Remember the model's name of a block argument."""
        self._argument_names[value] = name
        value.name_hint = name_hint(name)

    def emit(self, op: Operation) -> SSAValue:
        """Add an op with one result, or its value if that is a small constant.

        Raises:
            ImportModelError: a result that is larger than the limit.
        """
        result = op.results[0]
        own = type_of(result)
        self.check_size(own.get_shape(), numpy_dtype(own.element_type).itemsize)
        folded = self._fold(op)
        if folded is not None:
            op.erase()
            return self.constant(folded)
        op.location = self.location
        self.block.add_op(op)
        return result

    def check_size(self, shape: Sequence[int], itemsize: int) -> None:
        """Check that a tensor is within the limit.

        Raises:
            ImportModelError: it is larger.
            UnsupportedError: it has too many dimensions.
        """
        if len(shape) > MOST_DIMENSIONS:
            raise UnsupportedError(
                f"tensors of more than {MOST_DIMENSIONS} dimensions are not supported, "
                f"here are {len(shape)}",
                hint="join dimensions with Reshape",
            )
        size, most = math.prod(shape) * itemsize, self.limits.tensor_bytes
        if size > most:
            raise ImportModelError(
                f"a tensor of shape {_short(shape)} is too large: {size / 2**30:.3g} GiB",
                hint=f"if it is meant to be so large, raise the limit tensor-bytes={most}",
            )
        if math.prod(extent for extent in shape if extent) * itemsize >= 2**62:
            raise ImportModelError(
                f"a tensor of shape {_short(shape)} has no elements, but places beyond all memory"
            )

    def check_made(self, *shape: int) -> None:
        """Check that a constant of this shape may be made where the model has none.

        Raises:
            ImportModelError: it is larger than the limit.
        """
        most = self.limits.made_elements
        if math.prod(shape) > most:
            raise ImportModelError(
                f"a constant of shape {_short(shape)} would have to be made, which is too large",
                hint=f"if it is meant to be so large, raise the limit made-elements={most}",
            )

    def _fold(self, op: Operation) -> np.ndarray | None:
        if not isinstance(op, GraphOp) or len(op.results) != 1 or not op.is_folded_early:
            return None
        result = type_of(op.results[0])
        limit = FLOAT_FOLD_LIMIT if is_float(result.element_type) else self.limits.folded_elements
        if math.prod(result.get_shape()) > limit:
            return None
        arrays: list[np.ndarray] = []
        for operand in op.operands:
            array = self.known.get(operand)
            if array is None or array.size > self.limits.folded_elements or operand in self._named:
                return None
            arrays.append(array)
        with strings_in(self.strings):
            return op.evaluate(*arrays)[0]

    def value_of(self, value: SSAValue) -> np.ndarray | None:
        """The value if it follows from constants alone; None otherwise.

        `known` has what was folded at once, which spares weights and what is long. What decides
        a shape is computed from them all the same, as far as `made_elements` allows.
        """
        if value in self.known:
            return self.known[value]
        order = self._steps_to(value)
        if order is None:
            return None
        computed: dict[SSAValue, np.ndarray] = {}
        for op in order:
            arrays = [self.known[v] if v in self.known else computed[v] for v in op.operands]
            with strings_in(self.strings):
                computed.update(zip(op.results, op.evaluate(*arrays), strict=True))
        self.known[value] = computed[value]
        return computed[value]

    def measured_value(self, what: str, where: str) -> np.ndarray | None:
        """A value that an earlier stage has computed for a node; None if it has not.

        Args:
            what: a description of the value, which is unique in the node.
            where: the location of the node.
        """
        earlier = self.measured.get(_measured_name(what, where))
        return None if earlier is None else self.array_of(earlier)

    def missing(
        self,
        value: SSAValue,
        what: str,
        where: str,
        kind: type[MissingValuesError] = MissingValuesError,
        detail: str = "",
    ) -> MissingValuesError:
        """The error of a value that is not known.

        Args:
            what, where: as in `measured_value`, which a next stage asks for it.
            detail: follows the description in the message.
        """
        message = f"{what}{detail} is computed when the model runs"
        inputs, name = self.input_names_behind(value), _measured_name(what, where)
        if not self.is_main:  # A step of a loop has a value for each iteration.
            return MissingValuesError(message, inputs, where=where)
        return kind(message, inputs, where=where, value=value, name=name)

    def _steps_to(self, value: SSAValue) -> list[GraphOp] | None:
        """The ops that compute a value from constants, in order; None if something else does."""
        order: list[GraphOp] = []
        pending, seen = [value], {value}
        left = self.limits.made_elements
        while pending:
            op = pending.pop().owner
            if not isinstance(op, GraphOp):
                return None
            left -= sum(math.prod(shape_of(v)) for v in (*op.operands, *op.results))
            if left < 0:
                return None
            order.append(op)
            new = [v for v in op.operands if v not in self.known and v not in seen]
            seen.update(new)
            pending += new
        place = {op: index for index, op in enumerate(self.block.ops)}
        return sorted(dict.fromkeys(order), key=lambda op: place[op])

    def constant(self, array: np.ndarray | np.generic, name: str | None = None) -> SSAValue:
        """Add a constant: a weight if it has a name or is long, else a literal.

        Strings become the indices that stand for them.
        """
        array = np.asarray(array)
        if is_text(array.dtype):
            result = self.constant(self.strings.encode(array), name)
            self.texts.add(result)
            return result
        self.check_size(array.shape, array.itemsize)
        uniform = not any(array.strides)
        if (array.size > LITERAL_LIMIT and not uniform) or (name and _is_data(array)):
            op = ConstantOp.weight(self.weights.add(array, name or "constant"), like(array))
        else:
            op = ConstantOp.literal(array)
        op.location = self.location
        self.block.add_op(op)
        result = op.results[0]
        if name and _is_data(array):
            self._named.add(result)
        if name:
            result.name_hint = name_hint(name)
        self.known[result] = array
        return result

    def dense(self, tensor: SparseTensorProto, where: str) -> np.ndarray:
        """All elements of a sparse tensor.

        Raises:
            ImportModelError: it is malformed, or larger than the limit.
        """
        self.check_made(*tensor.dims)
        return self.reader.read_sparse(tensor, where)

    def read(self, weight: Weight, name: str) -> np.ndarray:
        """The value of a weight, stored in full or sparsely."""
        if isinstance(weight, SparseTensorProto):
            return self.dense(weight, name)
        return self.reader.read(weight, name)

    def copy_constant(self, value: SSAValue) -> SSAValue:
        """The constant that another block holds, in this one."""
        op = value.owner
        assert isinstance(op, ConstantOp)
        (result,) = self.append(op.clone())
        result.name_hint = value.name_hint
        self.mark_texts([value], [result])
        if op.literal_value is not None:
            self.known[result] = op.literal_value
        return result

    def mark_texts(self, values: Sequence[SSAValue], copies: Sequence[SSAValue]) -> None:
        """Remember that those values are strings which stand for others that are."""
        pairs = zip(values, copies, strict=True)
        self.texts.update(copy for value, copy in pairs if value in self.texts)

    def array_of(self, value: SSAValue) -> np.ndarray | None:
        """A known value as the model has it: strings as such."""
        known = self.known.get(value)
        if known is not None and value in self.texts:
            return self.strings.decode(known)
        return known

    def splat(self, shape: tuple[int, ...], value: np.generic) -> SSAValue:
        """Add a constant whose elements are all `value`; costs no memory."""
        return self.constant(np.broadcast_to(value, shape))

    def dtype_of(self, value: SSAValue) -> np.dtype:
        """The numpy dtype of a value's elements."""
        return TEXT if value in self.texts else numpy_dtype(type_of(value).element_type)

    def input_names_behind(self, value: SSAValue) -> list[str]:
        """The model's inputs that a value is computed from, in the model's order."""
        reached: set[SSAValue] = set()
        pending = [value]
        while pending:
            current = pending.pop()
            if current in reached:
                continue
            reached.add(current)
            if isinstance(current.owner, Operation):
                pending.extend(current.owner.operands)
        return [name for argument, name in self._argument_names.items() if argument in reached]

    def erase_unused(self) -> None:
        """Drop the ops whose results nothing uses (all graph ops are pure)."""
        for op in reversed(list(self.block.ops)):
            if isinstance(op, GraphOp | ScanOp) and not any(result.uses for result in op.results):
                op.detach()
                op.erase()


def _measured_name(what: str, where: str) -> str:
    return f"{where}:{what}"


def _short(shape: Sequence[int]) -> str:
    return str(list(shape)) if len(shape) <= 16 else f"{list(shape[:16])[:-1]}..."


def _is_data(array: np.ndarray) -> bool:
    """Whether a named constant is a parameter of the network, rather than a shape or scalar."""
    return array.ndim > 0 and is_float(element_of(array.dtype))


def named_location(name: str) -> NameLoc:
    """The location of a node: its name in the model."""
    return NameLoc(StringAttr(name), NoneAttr())


def name_hint(name: str) -> str:
    """A model's name as an SSA name: `gpu_0/conv1_1` becomes `gpu_0_conv1_1`."""
    plain = re.sub(r"[^A-Za-z0-9_$.-]+", "_", name).strip("_")
    if not plain:
        return "v"
    return plain if plain[0].isalpha() else f"v{plain}"
