"""Compile a kernel-level module in this process and call it with NumPy arrays.

```python
loaded = compile_module(module)
add = loaded.function("add")
add(x, y, out)          # arrays for memrefs, Python numbers for scalars
```
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerType, MemRefType, ModuleOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.backends.llvm.emit.names import entry_symbol, symbol_of
from tcopt.backends.llvm.emit.types import byte_size, llvm_type
from tcopt.backends.llvm.jit_link import link_objects, threads_object
from tcopt.backends.llvm.machine.machine import assemble_object, data_layout
from tcopt.backends.llvm.module import emit_module, is_public, target_of
from tcopt.backends.llvm.pool.text import THREADS_VARIABLE
from tcopt.backends.llvm.stop_flag import StopFlag
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.errors import InputError
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.support.processes.cores import default_threads


class NativeFunction:
    """A compiled function that takes NumPy arrays for memrefs and numbers for scalars.

    Calling it checks each argument: shape, dtype and C order must be those of the memref.
    Arrays are passed by address and written in place. Returns the function's result, if any.
    Raises MemoryError if the code could not allocate what it needs.
    """

    def __init__(
        self, name: str, address: int, inputs: Sequence[Attribute], output: Attribute | None
    ):
        self.name = name
        self.address = address
        self.owner: LoadedModule | None = None
        """Keeps the code loaded."""
        self.inputs = tuple(inputs)
        self.output = output
        result = None if output is None else _scalar_ctype(output)
        self._call = ctypes.CFUNCTYPE(result, *(_argument_ctype(t) for t in inputs))(address)
        self._convert = [_converter(name, i, t) for i, t in enumerate(inputs)]

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) != len(self.inputs):
            raise InputError(
                f"{self.name} takes {len(self.inputs)} arguments, got {len(arguments)}"
            )
        result = self._call(*(f(a) for f, a in zip(self._convert, arguments, strict=True)))
        if self.owner is not None:
            self.owner.stop.check_memory()
        return bool(result & 1) if self.output == IntegerType(1) else result


class LoadedModule:
    """A module loaded into memory: its functions by name, and the number of threads they use."""

    def __init__(
        self, module: ModuleOp, target: CpuTarget, objects: Sequence[bytes], externals: set[str]
    ):
        self.target = target
        functions = [
            op
            for op in module.body.block.ops
            if isinstance(op, func.FuncOp) and not op.is_declaration
        ]
        self._signatures = {
            op.sym_name.data: (tuple(op.function_type.inputs), tuple(op.function_type.outputs))
            for op in functions
        }
        self._public = [op.sym_name.data for op in functions if is_public(op)]
        exported = [symbol_of(name) for name in self._signatures]
        exported += [entry_symbol(name) for name in self._public]
        self.stop = StopFlag()
        symbols = [*exported, THREADS_VARIABLE]
        self._tracker = link_objects(objects, externals, symbols, self.stop.address)
        self.threads = default_threads()

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of all functions with a body, private ones included."""
        return tuple(self._signatures)

    @property
    def threads(self) -> int:
        """The maximum number of threads for parallel loops."""
        return self._threads.value

    @threads.setter
    def threads(self, number: int) -> None:
        if number < 1:
            raise InputError(f"the number of threads should be at least 1, got {number}")
        self._threads.value = number

    @property
    def _threads(self) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self._tracker[THREADS_VARIABLE])

    def address(self, name: str) -> int:
        """Return the address of a function that takes bare pointers.

        Raises InputError if the module has no such function.
        """
        self._check(name)
        return self._tracker[symbol_of(name)]

    def entry(self, name: str = "main") -> int:
        """Return the address of a public function's C entry point, `int32_t f(void **args)`."""
        self._check(name)
        if name not in self._public:
            raise InputError(f"function '{name}' is private, it has no C entry point")
        return self._tracker[entry_symbol(name)]

    def function(self, name: str = "main") -> NativeFunction:
        """Return a function that can be called from Python.

        Raises InputError if the module has no such function.
        """
        address = self.address(name)
        inputs, outputs = self._signatures[name]
        native = NativeFunction(name, address, inputs, outputs[0] if outputs else None)
        native.owner = self
        return native

    def _check(self, name: str) -> None:
        if name not in self._signatures:
            known = ", ".join(self._signatures) or "none"
            raise InputError(f"no function '{name}' in the module", hint=f"it has: {known}")


def compile_module(module: ModuleOp, target: CpuTarget | None = None) -> LoadedModule:
    """Compile a kernel-level module and load it into this process.

    Args:
        module: func, scf, memref, arith, math and vector ops; not modified.
        target: by default the module's `tcopt.target`, else this machine.

    Raises:
        UnsupportedError: an op or type has no LLVM form.
        BackendError: code generation or linking failed.
    """
    target = target or target_of(module)
    text = emit_module(
        module,
        triple=target.triple,
        data_layout=data_layout(target),
        capabilities=target.capabilities,
    )
    return load_objects(module, target, [assemble_object(text, target)], external_names(text))


def load_objects(
    module: ModuleOp, target: CpuTarget, objects: Sequence[bytes], externals: set[str]
) -> LoadedModule:
    """Load object code that was generated from `module` earlier."""
    objects = [*objects, threads_object(target)]
    return LoadedModule(module, target, objects, externals)


def external_names(text: str) -> set[str]:
    """Return the C functions that LLVM IR text declares."""
    names = {
        line.split("@", 1)[1].split("(", 1)[0]
        for line in text.splitlines()
        if line.startswith("declare ")
    }
    return {name for name in names if not name.startswith("llvm.")}


# Arguments


def _scalar_ctype(type: Attribute) -> Any:
    if isinstance(type, IndexType):
        return ctypes.c_int64
    if isinstance(type, IntegerType):
        names = {1: "c_uint8", 8: "c_int8", 16: "c_int16", 32: "c_int32", 64: "c_int64"}
        return getattr(ctypes, names[type.width.data])
    known = {"float": ctypes.c_float, "double": ctypes.c_double}
    if llvm_type(type) not in known:
        raise InputError(f"values of type {type} cannot be passed from Python")
    return known[llvm_type(type)]


def _argument_ctype(type: Attribute) -> Any:
    return ctypes.c_void_p if isa(type, MemRefType) else _scalar_ctype(type)


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an array's shape has the static extents of a buffer's."""
    return len(given) == len(shape) and all(
        wanted in (extent, DYNAMIC_INDEX) for extent, wanted in zip(given, shape, strict=True)
    )


def _converter(function: str, number: int, type: Attribute) -> Callable[[Any], Any]:
    """Return a function that checks one argument and converts it to a ctypes value."""
    if not isa(type, MemRefType):
        return lambda value: value
    shape, dtype = tuple(type.get_shape()), numpy_dtype(type.element_type)
    byte_size(type.element_type)

    def convert(value: Any) -> int:
        if not isinstance(value, np.ndarray):
            problem = f"is a {value.__class__.__name__}, not a numpy array"
        elif value.shape != shape and not _fits(value.shape, shape):
            problem = f"has shape {value.shape}, expected {shape}"
        elif value.dtype != dtype:
            problem = f"has dtype {value.dtype}, expected {dtype}"
        elif not value.flags.c_contiguous:
            problem = "is not contiguous in C order (use numpy.ascontiguousarray)"
        else:
            return value.ctypes.data
        raise InputError(f"argument {number} of {function} {problem}")

    return convert
