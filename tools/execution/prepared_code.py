"""Machine code and fingerprints of the functions of a module, cached for all runs of the module.

The check runs a module on two sets of inputs, and @main may call a function several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Operation

from tcopt.backends.llvm.jit import external_names
from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import data_layout
from tcopt.backends.llvm.module import emit_module
from tcopt.backends.llvm.ops.func import symbol_of
from tcopt.backends.ptx.source import write_ptx
from tcopt.dialects import loop
from tcopt.interpreters.plain_loop import PlainFunction, translate
from tcopt.tools.execution.fingerprints import Fingerprints
from tcopt.tools.execution.native_process import Handle, native_process

Shapes = Mapping[str, tuple[int, ...]]


@dataclass
class PreparedCode:
    """Cached code of functions, which must not change; a context manager that unloads the code.

    Attributes:
        fingerprints: of the functions.
    """

    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    _plain: dict[Any, PlainFunction] = field(default_factory=dict[Any, PlainFunction])
    _texts: dict[Operation, str] = field(default_factory=dict[Operation, str])
    _loaded: dict[Any, Handle] = field(default_factory=dict[Any, Handle])

    def __enter__(self) -> PreparedCode:
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._loaded.values():
            native_process().forget(handle)
        self._loaded.clear()

    def plain(self, function: loop.FuncOp, shapes: Shapes) -> PlainFunction:
        """Return the plain translation of a function.

        Args:
            shapes: of its stages, if known.
        """
        key = (function, tuple(sorted(shapes.items())))
        if key not in self._plain:
            self._plain[key] = translate(function, shapes=shapes)
        return self._plain[key]

    def plain_code(self, plain: PlainFunction, effort: int) -> Handle:
        """Return the machine code of a plain translation without calls into this process."""
        process, key = native_process(), plain.text
        if not process.has(self._loaded.get(key)):
            externals = sorted(plain.externals)
            self._loaded[key] = process.load(plain.text, ["plain"], externals, effort=effort)
        return self._loaded[key]

    def kernel(self, module: ModuleOp, function: func.FuncOp, *, shuffled: bool) -> Handle:
        """Return the machine code of a kernel-level function.

        Args:
            shuffled: run the iterations of parallel loops one at a time, in another order.
        """
        key, process = (function, shuffled), native_process()
        if not process.has(self._loaded.get(key)):
            if function not in self._texts:
                self._texts[function] = _kernel_text(module, function)
            text = self._texts[function]
            exports, externals = [kernel_symbol(function)], sorted(external_names(text))
            self._loaded[key] = process.load(text, exports, externals, shuffled=shuffled)
        return self._loaded[key]

    def ptx(self, module: ModuleOp, function: func.FuncOp) -> Handle:
        """The PTX of a kernel, for a CUDA device.

        Raises:
            UnsupportedError: an op has no form in PTX, or the interpreter of PTX does not know an
                instruction.
        """
        key, process = (function, "ptx"), native_process()
        if not process.has(self._loaded.get(key)):
            if function not in self._texts:
                alone = ModuleOp([function.clone()], dict(module.attributes))
                # Buffers are aligned as those of a memory plan are.
                self._texts[function] = write_ptx(alone, planned=True)
            self._loaded[key] = process.load_ptx(self._texts[function])
        return self._loaded[key]


def kernel_symbol(function: func.FuncOp) -> str:
    """Return the symbol of a function in object code."""
    return symbol_of(function.sym_name.data).strip('"')


def _kernel_text(module: ModuleOp, function: func.FuncOp) -> str:
    """Return LLVM IR of a function and everything it refers to."""
    named = {
        op.properties["sym_name"].data: op  # pyright: ignore
        for op in module.ops
        if "sym_name" in op.properties
    }
    needed: dict[str, Operation] = {}
    waiting: list[Operation] = [function]
    while waiting:
        op = waiting.pop()
        needed[op.properties["sym_name"].data] = op  # pyright: ignore
        for inner in op.walk():
            for attribute in inner.properties.values():
                target = attribute.string_value() if isinstance(attribute, SymbolRefAttr) else ""
                if target in named and target not in needed:
                    waiting.append(named[target])
    target = host_target()
    alone = ModuleOp([op.clone() for op in needed.values()], dict(module.attributes))
    return emit_module(
        alone,
        triple=target.triple,
        data_layout=data_layout(target),
        capabilities=target.capabilities,
    )
