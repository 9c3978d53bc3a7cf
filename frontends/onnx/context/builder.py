"""Builds graph ops while a model is imported, and folds constants.

Exporters compute shapes with ordinary operators: Shape, Gather, Concat, Cast and so on. Extents are
numbers or sizes here. `GraphBuilder.emit` evaluates every op whose operands are small constants
instead of appending it. Handlers then find shapes and axes in `known`, or in `sizes` if some are
symbolic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
from onnx import SparseTensorProto
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerType,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tcopt.dialects.graph import AndOp, ConstantOp, NotOp, ReshapeOp
from tcopt.dialects.graph.control.scan import ScanOp
from tcopt.dialects.graph.core.interfaces import GraphOp
from tcopt.dialects.graph.core.size_values import SizesOp, are_exact, whole_numbers
from tcopt.dialects.graph.core.types import (
    element_of,
    is_float,
    is_sized,
    like,
    numpy_dtype,
    shape_of,
    tensor,
    type_of,
)
from tcopt.dialects.graph.core.weights import WeightStore
from tcopt.dialects.size import set_function_symbols, symbols_in
from tcopt.frontends.onnx.context.defined_sizes import DefinedSizes
from tcopt.frontends.onnx.context.value_sizes import ValueSizes
from tcopt.frontends.onnx.model.errors import MissingValuesError
from tcopt.frontends.onnx.model.initializers import Weight
from tcopt.frontends.onnx.model.limits import DEFAULT_LIMITS, ModelLimits
from tcopt.frontends.onnx.model.tensors import TensorReader
from tcopt.support.arithmetic.sizes import Extent, is_fixed, symbols_of, upper_bound
from tcopt.support.data.strings import TEXT, StringTable, is_text, strings_in
from tcopt.support.errors import UndecidedSize

# Shape computations are short; anything above a limit is data and is not folded.
FLOAT_FOLD_LIMIT = 16
# Constants up to this size are literals in the IR; larger ones are weights.
LITERAL_LIMIT = 64


class GraphBuilder:
    """Appends ops to one block.

    Attributes:
        known: arrays of the values that are constants.
        sizes: object arrays of the values that are extents, some of which are symbolic sizes.
        weights: store for large constants.
        functions: private functions that the ops of the block call.
        limits: limits on tensors and on constant folding.
        location: location of the ops emitted next.
        extents: valid extents of values of which only the first elements are valid; see `stages`.
        may_bound: whether results may be bounded in this way.
        defines: whether such results get a size instead, and the program has loops that data ends.
        defined: sizes that the program computes.
        values: those of them that are elements of tensors.
        depth: nesting of the current node in functions and subgraphs.
        checks: conditions under which a run fails, with the error message.
        sequence_items: total number of tensors in the sequences created so far.
        strings: string table of the model.
        texts: values that are indices into the string table.
        measured: values computed by earlier stages because shapes depend on them, see `stages`.
        key: key of random numbers, if any are drawn.
        argument_names: names of the model's inputs.
        is_main: whether ops belong to @main rather than to the body of a loop.
    """

    def __init__(
        self,
        block: Block,
        weights: WeightStore,
        reader: TensorReader,
        limits: ModelLimits = DEFAULT_LIMITS,
    ):
        self.block = block
        self.weights = weights
        self.reader = reader
        self.limits = limits
        self.known: dict[SSAValue, np.ndarray] = {}
        self.sizes: dict[SSAValue, np.ndarray] = {}
        self.functions: list[FuncOp] = []
        self.location: LocationAttr = named_location("model")
        self.extents: dict[SSAValue, SSAValue] = {}
        self.may_bound = False
        self.defines = False
        self.defined = DefinedSizes(self)
        self.values = ValueSizes(self)
        self.depth = 0
        self.checks: list[tuple[str, SSAValue]] = []
        self.sequence_items = 0
        self.strings = StringTable()
        self.texts: set[SSAValue] = set()
        self.measured: dict[str, SSAValue] = {}
        self.key: SSAValue | None = None
        self.is_main = True
        self.argument_names: dict[SSAValue, str] = {}
        # Named weights are data to keep, however small; they are not folded.
        self._named: set[SSAValue] = set()

    def function(self, name: str, types: Sequence[Attribute]) -> GraphBuilder:
        """Return a builder for the body of a new private function with these argument types."""
        inner = GraphBuilder(Block(arg_types=types), self.weights, self.reader, self.limits)
        inner.functions = self.functions
        inner.strings, inner.texts = self.strings, self.texts
        inner.is_main = False
        inner.defines = self.defines
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
        """Return the run's random key, an argument of the block; None in a loop body."""
        if self.key is None and self.is_main:
            self.key = self.block.insert_arg(tensor((1,), i64), len(self.block.args))
            self.key.name_hint = "random_key"
        return self.key

    def finish(self, results: Sequence[SSAValue]) -> FuncOp:
        """Complete the function whose body this builder wrote."""
        self.block.add_op(ReturnOp(*results))
        self.erase_unused()
        function = self.block.parent_op()
        assert isinstance(function, FuncOp)
        function.function_type = FunctionType.from_lists(
            list(self.block.arg_types), [value.type for value in results]
        )
        used = (e for op in self.block.ops if isinstance(op, SizesOp) for e in op.values.extents)
        own = (value.type for op in self.block.ops for value in op.results)
        symbols = [
            *symbols_in([*self.block.arg_types, *own]),
            *(symbol for extent in used for symbol in symbols_of(extent)),
        ]
        set_function_symbols(function, list(dict.fromkeys(symbols)))
        return function

    def narrow_checks(self, first: int, condition: SSAValue, holds: bool) -> None:
        """Restrict the checks from index `first` on to runs in which a condition has a value."""
        for place in range(first, len(self.checks)):
            message, refused = self.checks[place]
            taken = self.emit(ReshapeOp(condition, (1,)))
            if not holds:
                taken = self.emit(NotOp(taken))
            self.checks[place] = message, self.emit(AndOp(taken, refused))

    def append(self, op: Operation) -> list[SSAValue]:
        """Append an op without folding; return its results."""
        op.location = self.location
        self.block.add_op(op)
        return list(op.results)

    def add_argument(self, value: SSAValue, name: str) -> None:
        """Record the model's name of a block argument."""
        self.argument_names[value] = name
        value.name_hint = name_hint(name)

    def emit(self, op: Operation) -> SSAValue:
        """Append an op with a single result, unless it folds to a small constant; return the value.

        Raises:
            ImportModelError: the result exceeds the size limit.
        """
        result = op.results[0]
        dtype = numpy_dtype(type_of(result).element_type)
        self.check_size(type_of(result).get_shape(), dtype.itemsize)
        folded = self._fold(op)
        if folded is not None:
            op.erase()
            return self.constant(folded)
        sizes = self._fold_sizes(op)
        if sizes is not None:
            op.erase()
            return self.size_values(sizes, dtype)
        op.location = self.location
        self.block.add_op(op)
        return result

    def check_size(self, shape: Sequence[Extent], itemsize: int) -> None:
        """Check the size of a tensor, see `ModelLimits.check_size`."""
        self.limits.check_size(shape, itemsize)

    def check_made(self, *shape: int) -> None:
        """Check a constant that is not in the model, see `ModelLimits.check_made`."""
        self.limits.check_made(*shape)

    def _fold(self, op: Operation) -> np.ndarray | None:
        if not isinstance(op, GraphOp) or len(op.results) != 1 or not op.is_folded_early:
            return None
        result = type_of(op.results[0])
        limit = FLOAT_FOLD_LIMIT if is_float(result.element_type) else self.limits.folded_elements
        if op.has_sizes or math.prod(result.get_shape()) > limit:
            return None
        arrays: list[np.ndarray] = []
        for operand in op.operands:
            array = self.known.get(operand)
            if array is None or array.size > self.limits.folded_elements or operand in self._named:
                return None
            arrays.append(array)
        with strings_in(self.strings):
            return op.evaluate(*arrays)[0]

    def _fold_sizes(self, op: Operation) -> np.ndarray | None:
        """Evaluate an op on sizes; None if it is not an op on extents alone."""
        if self.sizes.keys().isdisjoint(op.operands) or not isinstance(op, GraphOp):
            return None
        (result,) = op.results
        element = type_of(result).element_type
        if not (isinstance(element, IntegerType) or is_float(element)) or is_sized(result):
            return None
        arrays: list[np.ndarray] = []
        for operand in op.operands:
            array = self.sizes.get(operand, self.known.get(operand))
            if array is None or array.size > self.limits.folded_elements:
                return None
            array = whole_numbers(array)
            if array is None:
                return None
            arrays.append(array)
        try:
            found = op.compute_sizes(*arrays)
        # The program computes the value.
        except (UndecidedSize, TypeError, ZeroDivisionError):
            return None
        if found is None or (is_float(element) and not are_exact(found.flat, numpy_dtype(element))):
            return None
        return found.reshape(shape_of(result))

    def size_values(self, array: np.ndarray, dtype: np.dtype[Any]) -> SSAValue:
        """Add an object array of extents as a tensor of integers."""
        if is_fixed(array.flat):
            return self.constant(array.astype(dtype))
        (result,) = self.append(SizesOp(array.shape, list(array.flat), element_of(dtype)))
        self.sizes[result] = array
        return result

    def sizes_behind(self, value: SSAValue) -> list[str]:
        """Return the names of the sizes that a value is computed from; [] if data is needed too."""
        order = self.steps_to(value)
        if order is None:
            return []
        found = (each for op in order if isinstance(op, SizesOp) for each in op.values.extents)
        return names_of(found)

    def is_known(self, value: SSAValue) -> bool:
        """Whether a value consists of numbers or sizes that are known during import."""
        return value in self.known or value in self.sizes

    def may_define(self, value: SSAValue) -> bool:
        """Whether a value is computed when the program runs, and may be a size of it."""
        if not self.defines or not self.is_main or self.is_known(value):
            return False
        return self.value_of(value) is None

    def value_of(self, value: SSAValue) -> np.ndarray | None:
        """Return the array of a value that depends only on constants; otherwise None.

        `known` only has values that were folded immediately, which excludes weights and large
        results. Values that determine shapes are computed even from these, within the limit
        `made_elements`.
        """
        if value in self.known:
            return self.known[value]
        order = self.steps_to(value)
        if order is None or self.sizes_behind(value):
            return None
        computed: dict[SSAValue, np.ndarray] = {}
        for op in order:
            arrays = [self.known[v] if v in self.known else computed[v] for v in op.operands]
            with strings_in(self.strings):
                computed.update(zip(op.results, op.evaluate(*arrays), strict=True))
        self.known[value] = computed[value]
        return computed[value]

    def measured_value(self, what: str, where: str) -> np.ndarray | None:
        """Return a value that an earlier stage has computed for a node; None if there is none.

        Args:
            what: description of the value, unique within the node.
            where: location of the node.
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
        """Return the error for a value that is not known.

        Args:
            what, where: see `measured_value`; the next stage uses them to find the value.
            detail: text that follows the description in the message.
        """
        message = f"{what}{detail} is computed when the model runs"
        inputs, name = self.input_names_behind(value), _measured_name(what, where)
        if not self.is_main:  # Each iteration of a loop has a different value.
            return MissingValuesError(message, inputs, where=where)
        return kind(message, inputs, where=where, value=value, name=name)

    def steps_to(self, value: SSAValue, given: Container[SSAValue] = ()) -> list[GraphOp] | None:
        """Return the ops that compute a value from constants, in order; None if impossible.

        Args:
            given: further values that are known.
        """
        order: list[GraphOp] = []
        pending, seen = [value], {value}
        left = self.limits.made_elements
        while pending:
            op = pending.pop().owner
            if not isinstance(op, GraphOp):
                return None
            own = (*op.operands, *op.results)
            left -= sum(math.prod(map(upper_bound, type_of(v).get_shape())) for v in own)
            if left < 0:
                return None
            order.append(op)
            new = [v for v in op.operands if not (v in self.known or v in seen or v in given)]
            seen.update(new)
            pending += new
        place = {op: index for index, op in enumerate(self.block.ops)}
        return sorted(dict.fromkeys(order), key=lambda op: place[op])

    def constant(self, array: np.ndarray | np.generic, name: str | None = None) -> SSAValue:
        """Add a constant: a weight if it is named or large, otherwise a literal.

        Strings are replaced by indices into the string table.
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
        """Convert a sparse tensor to a dense array.

        Raises:
            ImportModelError: it is malformed or exceeds the limit.
        """
        self.check_made(*tensor.dims)
        return self.reader.read_sparse(tensor, where)

    def read(self, weight: Weight, name: str) -> np.ndarray:
        """Return the value of a dense or sparse weight."""
        if isinstance(weight, SparseTensorProto):
            return self.dense(weight, name)
        return self.reader.read(weight, name)

    def copy_constant(self, value: SSAValue) -> SSAValue:
        """Copy a constant from another block to this one."""
        op = value.owner
        assert isinstance(op, ConstantOp)
        (result,) = self.append(op.clone())
        result.name_hint = value.name_hint
        self.mark_texts([value], [result])
        if op.literal_value is not None:
            self.known[result] = op.literal_value
        return result

    def mark_texts(self, values: Sequence[SSAValue], copies: Sequence[SSAValue]) -> None:
        """Mark copies of string values as strings."""
        pairs = zip(values, copies, strict=True)
        self.texts.update(copy for value, copy in pairs if value in self.texts)

    def array_of(self, value: SSAValue) -> np.ndarray | None:
        """Return the array of a known value, with strings decoded."""
        known = self.known.get(value)
        if known is not None and value in self.texts:
            return self.strings.decode(known)
        return known

    def splat(self, shape: tuple[int, ...], value: np.generic) -> SSAValue:
        """Add a constant whose elements are all `value`; needs no memory for the elements."""
        return self.constant(np.broadcast_to(value, shape))

    def dtype_of(self, value: SSAValue) -> np.dtype:
        """Return the numpy dtype of a value's elements."""
        return TEXT if value in self.texts else numpy_dtype(type_of(value).element_type)

    def input_names_behind(self, value: SSAValue) -> list[str]:
        """Return the names of the model's inputs that a value depends on, in the model's order."""
        reached: set[SSAValue] = set()
        pending = [value]
        while pending:
            current = pending.pop()
            if current in reached:
                continue
            reached.add(current)
            if isinstance(current.owner, Operation):
                pending.extend(current.owner.operands)
        return [name for argument, name in self.argument_names.items() if argument in reached]

    def erase_unused(self) -> None:
        """Erase ops with unused results; all graph ops are pure."""
        for op in reversed(list(self.block.ops)):
            if isinstance(op, GraphOp | ScanOp) and not any(result.uses for result in op.results):
                op.detach()
                op.erase()


def names_of(extents: Iterable[Extent]) -> list[str]:
    """Return the names of the symbols in extents, in order of appearance."""
    symbols = (symbol for extent in extents for symbol in symbols_of(extent))
    return list(dict.fromkeys(symbol.name for symbol in symbols))


def _measured_name(what: str, where: str) -> str:
    return f"{where}:{what}"


def _is_data(array: np.ndarray) -> bool:
    """Whether a named constant is a parameter of the network rather than a shape or scalar."""
    return array.ndim > 0 and is_float(element_of(array.dtype))


def named_location(name: str) -> NameLoc:
    """Return the location of a node, which is its name in the model."""
    return NameLoc(StringAttr(name), NoneAttr())


def name_hint(name: str) -> str:
    """Convert a model's name to an SSA name: `gpu_0/conv1_1` becomes `gpu_0_conv1_1`."""
    plain = re.sub(r"[^A-Za-z0-9_$.-]+", "_", name).strip("_")
    if not plain:
        return "v"
    return plain if plain[0].isalpha() else f"v{plain}"
