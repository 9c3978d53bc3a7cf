"""Functions that Python computes during a run, and the string tensors of a program."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.specs import TensorSpec, memory_of
from tcopt.support.data.named_dtypes import named_dtype
from tcopt.support.data.strings import StringTable, is_text, strings_in
from tcopt.support.errors import InputError, TcoptError
from tcopt.support.files.json_facts import FactError, Facts
from tcopt.support.host.host_functions.registry import Form, HostFunction, find_host_function

if TYPE_CHECKING:
    from tcopt.backends.accelerator.report import ProgramReport

Array = NDArray[Any]

PLACE = np.dtype(np.int64)
"""Element type of strings in compiled code: an index into the string table."""

_MOST_DIMENSIONS = 64


@dataclass(frozen=True)
class HostCall:
    """A function that code calls and Python computes.

    Attributes:
        symbol: its symbol in the code.
        function: its name, see `support.host.host_functions`.
        settings: parameters besides the arrays.
        forms: of its operands, then its results.
    """

    symbol: str
    function: str
    settings: Mapping[str, Any]
    forms: tuple[Form, ...]

    def report(self, settings: Mapping[str, Any] | None = None) -> ProgramReport | None:
        """Return the cycle report of an accelerator's program; None if the call runs none.

        Args:
            settings: in place of the call's own.
        """
        from tcopt.backends.accelerator.report import report_of_call

        shapes = [form.shape for form in self.forms]
        bits = [8 * form.dtype.itemsize for form in self.forms]
        return report_of_call(self.function, settings or self.settings, shapes, bits)


class HostCalls:
    """Host functions of a program, as addresses to link code with.

    Args:
        stop: makes the calling code return early; called if a function fails.
    """

    def __init__(self, calls: Iterable[HostCall], stop: Callable[[], None]):
        self.failure: BaseException | None = None
        self._stop = stop
        # Keeps the functions alive while code may call them.
        self._functions = {call.symbol: self._native(call) for call in calls}

    @property
    def addresses(self) -> dict[str, int]:
        """Address of each function, by its symbol."""
        return {
            symbol: cast(int, ctypes.cast(function, ctypes.c_void_p).value)
            for symbol, function in self._functions.items()
        }

    def raise_failure(self) -> None:
        """Raise the exception of a function in the last run, if there was one."""
        failure, self.failure = self.failure, None
        if failure is None:
            return
        if isinstance(failure, TcoptError | MemoryError | KeyboardInterrupt):
            raise failure
        raise InputError(f"a function of the model failed: {failure}") from failure

    def _native(self, call: HostCall) -> Any:
        function = find_host_function(call.function)
        _check_count(call, function)

        def run(*addresses: int) -> None:
            if self.failure is not None:
                return
            try:
                _run(function, call, addresses)
            except BaseException as error:  # No exception may propagate through native code.
                self.failure = error
                self._stop()

        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(call.forms))(run)


def _check_count(call: HostCall, function: HostFunction) -> None:
    if not function.accepts(len(call.forms)):
        raise InputError(f"{call.function} is called with {len(call.forms)} arrays")


def _run(function: HostFunction, call: HostCall, addresses: Sequence[int]) -> None:
    arrays = [_array_at(a, form) for a, form in zip(addresses, call.forms, strict=True)]
    function.compute(call.settings, arrays)


def _array_at(address: int, form: Form) -> Array:
    size = prod(form.shape) * form.dtype.itemsize
    if not size:
        return np.empty(form.shape, form.dtype)
    data: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(data, form.dtype).reshape(form.shape)


class Texts:
    """The strings of a program: constants of the model, and in a run those of inputs and results.

    Args:
        strings: the model's, by index.
        called: whether the code calls functions that Python computes, which see the strings.
    """

    def __init__(
        self,
        strings: Sequence[str],
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        *,
        called: bool,
    ):
        self.table = StringTable(strings or [""])
        self._called = called
        self._inputs = [place for place, spec in enumerate(inputs) if is_text(spec.dtype)]
        self._outputs = [place for place, spec in enumerate(outputs) if is_text(spec.dtype)]

    def run(self, run: Callable[[list[Array]], list[Array]], feeds: Sequence[Array]) -> list[Array]:
        """Run a program that computes with string indices on arrays of strings."""
        table = self.table.fork()
        given = list(feeds)
        for place in self._inputs:
            given[place] = table.encode(given[place])
        if self._called:
            with strings_in(table):
                results = run(given)
        else:
            results = run(given)
        for place in self._outputs:
            results[place] = table.decode(results[place])
        return results


def as_code_has_it(spec: TensorSpec) -> TensorSpec:
    """Return the specification of a tensor in compiled code: strings become indices, and a tensor
    in a room becomes the room.
    """
    return memory_of(spec._replace(dtype=PLACE) if is_text(spec.dtype) else spec)


def call_facts(call: HostCall) -> dict[str, Any]:
    """Return a call as JSON values."""
    forms = [{"shape": list(form.shape), "dtype": form.dtype.name} for form in call.forms]
    settings = dict(call.settings)
    return {
        "symbol": call.symbol,
        "function": call.function,
        "settings": settings,
        "forms": forms,
    }


def call_of(facts: Facts) -> HostCall:
    """Return the call encoded by `call_facts`.

    Raises:
        FactError: the facts are malformed.
    """
    symbol = facts.text("symbol")
    if not symbol.isascii() or not symbol.isidentifier():
        facts.refuse("symbol", f"is {symbol!r}, which is not the name of a C function")
    settings = facts.facts("settings").values()
    if not all(map(_is_setting, settings.values())):
        facts.refuse("settings", "have a value that is not a setting")
    try:
        call = HostCall(
            symbol,
            facts.text("function"),
            settings,
            tuple(_form(form) for form in facts.items("forms")),
        )
        _check_count(call, find_host_function(call.function))
    except InputError as error:
        raise FactError(error.message) from error
    return call


def _is_setting(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str | int | float) for item in cast("list[Any]", value))
    return isinstance(value, str | int | float)


def _form(facts: Facts) -> Form:
    shape = tuple(facts.numbers("shape"))
    name = facts.text("dtype")
    try:
        dtype = named_dtype(name)
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None or dtype.name != name or dtype.hasobject or not dtype.itemsize:
        facts.refuse("dtype", f"is {name!r}, which is not an element type")
    if len(shape) > _MOST_DIMENSIONS or prod(shape) * dtype.itemsize > 2**48:
        facts.refuse("shape", "is too large")
    return Form(shape, dtype)
