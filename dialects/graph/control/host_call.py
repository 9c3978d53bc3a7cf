"""Calls of Python functions, for operations without a loop form, such as on strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from xdsl.dialects.builtin import DictionaryAttr, MemRefType, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.core import OpResult, SSAValues
from xdsl.irdl import irdl_op_definition, prop_def, var_operand_def, var_result_def
from xdsl.utils.exceptions import VerifyException

from tcopt.dialects.graph.core.opaque import OpaqueOp
from tcopt.dialects.graph.core.types import AnyTensor, Array, numpy_dtype, type_of
from tcopt.dialects.loop.writer import Buffer, KernelWriter
from tcopt.dialects.size import symbols_in
from tcopt.dialects.te.api import ExpressionError
from tcopt.dialects.te.function_sizes import FunctionSizes
from tcopt.dialects.te.scalar import storage_type
from tcopt.support.errors import InputError
from tcopt.support.host.host_calls import HOST_CALL, plain_settings, settings_attribute
from tcopt.support.host.host_functions.registry import Form, HostFunction, find_host_function
from tcopt.support.ir.quick_ir import init_op


@irdl_op_definition
class HostCallOp(OpaqueOp):
    """Call of a host function of `support.host.host_functions` on whole tensors.

        %y = graph.host_call %a, %b {function = "string_concat"} : tensor<4xi64>

    Strings are represented by their indices in the program's table (`graph.strings` of the module).
    The op lowers to a call of a declared function, which the runtime defines.
    """

    name = "graph.host_call"

    arguments = var_operand_def(TensorType)
    function = prop_def(StringAttr)
    settings = prop_def(DictionaryAttr, default_value=DictionaryAttr({}))
    outputs = var_result_def(TensorType)

    def __init__(
        self,
        function: str,
        operands: Sequence[SSAValue | Operation],
        types: Sequence[AnyTensor],
        settings: Mapping[str, Any] | None = None,
    ):
        """`types` are the result types, `settings` additional arguments of the function."""
        values = [SSAValue.get(operand) for operand in operands]
        properties = {
            "function": StringAttr(function),
            "settings": settings_attribute(settings or {}),
        }
        init_op(self, values, (), properties)
        self.results = SSAValues(OpResult(t, self, i) for i, t in enumerate(types))

    @property
    def is_host_call(self) -> bool:
        """True: the op is a call of a host function."""
        return True

    @property
    def called(self) -> HostFunction:
        """The called function; VerifyException if there is none of that name."""
        try:
            return find_host_function(self.function.data)
        except InputError as error:
            raise VerifyException(error.message) from error

    def infer(self) -> Sequence[AnyTensor]:
        """Return the declared types; their number must match the function's."""
        called = self.called
        plain_settings(self.settings)
        if len(self.operands) != len(called.takes) or len(self.results) != len(called.gives):
            raise VerifyException(
                f"{self.function.data} takes {len(called.takes)} tensors and returns "
                f"{len(called.gives)}"
            )
        return [type_of(result) for result in self.results]

    def compute_all(self, *args: Any, **kwargs: Any) -> Sequence[Array]:
        """Call the function; strings are represented by indices in the current table."""
        types = [type_of(result) for result in self.results]
        forms = [Form(t.get_shape(), numpy_dtype(t.element_type)) for t in types]
        return self.called.on_places(plain_settings(self.settings), args, forms)

    def write(self, k: KernelWriter, *buffers: Buffer) -> NoReturn:
        """Raise ExpressionError: the op has no loops."""
        raise ExpressionError(f"{self.function.data} is computed by the host")

    def define(
        self,
        name: str,
        lanes: Sequence[int] = (),
        sizes: FunctionSizes | None = None,
        *,
        in_place: bool = False,
    ) -> FuncOp:
        """Return a declaration of a function of the operands' buffers and the results'."""
        if symbols_in((*self.operand_types, *self.result_types)):
            raise VerifyException("a function of the host needs fixed extents")
        types = [type_of(value) for value in (*self.operands, *self.results)]
        buffers = [MemRefType(storage_type(t.element_type), t.get_shape()) for t in types]
        function = FuncOp.external(f"tcopt_{name}", buffers, [])
        facts = {"function": self.function, "settings": self.settings}
        function.attributes[HOST_CALL] = DictionaryAttr(facts)
        return function
