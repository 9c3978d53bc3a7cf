"""Inlining of device functions into kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tcopt.interpreters.ptx.text import NAME, Label, Operand, PtxInstruction, PtxKernel
from tcopt.support.errors import UnsupportedError


def inline_functions(kernel: PtxKernel, functions: Mapping[str, PtxKernel]) -> PtxKernel:
    """Return a kernel with all calls inlined; instructions keep their line numbers.

    Raises:
        UnsupportedError: a called function is undefined or recursive, or a call is guarded.
    """
    if not any(isinstance(each, PtxInstruction) and each.opcode == "call" for each in kernel.body):
        return kernel
    return _Inlining(kernel, functions).run()


class _Inlining:
    def __init__(self, kernel: PtxKernel, functions: Mapping[str, PtxKernel]):
        self._result = replace(
            kernel, registers=dict(kernel.registers), variables=list(kernel.variables), body=[]
        )
        self._kernel = kernel
        self._functions = functions
        self._calls = 0

    def run(self) -> PtxKernel:
        self._add(self._kernel, "", ())
        return self._result

    def _add(self, function: PtxKernel, prefix: str, callers: tuple[str, ...]) -> None:
        """Append a function's body, with a prefix added to all its names."""
        labels = {each.name for each in function.body if isinstance(each, Label)}
        variables = {each.name for each in function.variables}
        plain = {name: f"{prefix}{name}" for name in labels | variables} if prefix else {}

        def renamed(text: str) -> str:
            return NAME.sub(lambda found: new_name(found[0]), text)

        def new_name(name: str) -> str:
            registers = function.registers
            if prefix and (name in registers or name.rstrip("0123456789") in registers):
                return _register(prefix, name)
            return plain.get(name, name)

        for each in function.body:
            if isinstance(each, Label):
                self._result.body.append(Label(new_name(each.name)))
                continue
            operands = tuple(
                renamed(o) if isinstance(o, str) else tuple(map(renamed, o)) for o in each.operands
            )
            guard = None if each.guard is None else renamed(each.guard)
            each = replace(each, operands=operands, guard=guard)
            if each.opcode == "call":
                self._call(each, callers)
            elif each.opcode in ("ret", "exit") and prefix:
                end: tuple[Operand, ...] = (_end(prefix),)
                self._result.body.append(replace(each, opcode="bra", modifiers=(), operands=end))
            else:
                self._result.body.append(each)

    def _call(self, call: PtxInstruction, callers: tuple[str, ...]) -> None:
        name = call.scalar(1)
        function = self._functions.get(name)
        if function is None or name in callers or call.guard is not None:
            where = f"kernel {self._kernel.name}, line {call.line}"
            raise UnsupportedError(f"the PTX interpreter: a call of {name}", where=where)
        self._calls += 1
        prefix = f"call{self._calls}_"
        for register, type_ in function.registers.items():
            self._result.registers[_register(prefix, register)] = type_
        self._result.variables += [
            replace(each, name=prefix + each.name) for each in function.variables
        ]
        for given, parameter in zip(call.vector(2), function.parameters, strict=True):
            self._move(call, function, _register(prefix, f"%{parameter}"), given, parameter)
        self._add(function, prefix, (*callers, name))
        self._result.body.append(Label(_end(prefix)))
        for result, own in zip(call.vector(0), function.results, strict=True):
            self._move(call, function, result, _register(prefix, f"%{own}"), own)

    def _move(
        self, call: PtxInstruction, function: PtxKernel, target: str, source: str, parameter: str
    ) -> None:
        type_ = function.registers[f"%{parameter}"]
        moved = replace(call, opcode="mov", modifiers=(type_,), operands=(target, source))
        self._result.body.append(moved)


def _register(prefix: str, name: str) -> str:
    return f"%{prefix}{name[1:]}"


def _end(prefix: str) -> str:
    """Return the label at the end of an inlined body."""
    return f"{prefix}end"
