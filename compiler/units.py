"""Compile units: one kernel in a module of its own, lowered through the pipeline to code.

After the te level a kernel's code depends only on its own text. Each kernel is therefore lowered
alone by the same passes as a whole module, in this process or another, and can be cached.

    te.func @conv(%x: ..., %w: ...) -> tensor<..> {...}
->
    te.func @conv_0f3ac41b {...}
    func.func private @caller(%x: ..., %w: ...) -> tensor<..> {
      %0 = te.call @conv_0f3ac41b(%x, %w) ...       // shows what a call needs in the end
      func.return %0
    }
-> object code with the symbol `tcopt.conv_0f3ac41b`
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import (
    FunctionType,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Block, Operation, Region
from xdsl.printer import Printer

from tcopt.backends.llvm.emit.names import symbol_of
from tcopt.compiler.kernel import Kernel, op_label, without_place
from tcopt.compiler.passes import run_passes, shared_context
from tcopt.dialects import loop, te
from tcopt.dialects.sched import SequenceOp
from tcopt.dialects.size import dims_attr, function_symbols, set_function_symbols, size_of
from tcopt.dialects.target import TARGET_ATTRIBUTE, TargetFacts, target_facts_of
from tcopt.schedules.tuning.lock_file import OPTIONAL
from tcopt.support.errors import PassFailedError, ScheduleError, TcoptError
from tcopt.support.ir.origins import node_names
from tcopt.support.ir.quick_ir import walk_ops
from tcopt.support.machines.instruction_places import with_nodes
from tcopt.support.pipelines.phases import Phase
from tcopt.support.registries.target_registry import HOST_KIND, target_named
from tcopt.support.remarks import Remark, collect_remarks
from tcopt.support.syntax.canonical_text import (
    CanonicalText,
    base_name,
    compile_attributes,
    symbol_name,
)
from tcopt.targets.interface import TargetKind

_CALLER = "caller"
_DIGITS = 12

KernelFunction = te.FuncOp | loop.FuncOp


@dataclass(frozen=True)
class CompileUnit:
    """A kernel to be compiled.

    Attributes:
        key: equal for equal kernels, in all processes of this version of the compiler.
        kept_as: key in the disk cache; includes names of the model if the code contains them.
        name: name of the compiled function.
        text: canonical text of the kernel.
        function: the op itself, which may be lowered in place.
        module: module of origin, whose attributes have the target.
        sequence: its schedule, if one is given.
    """

    key: str
    kept_as: str
    name: str
    text: str
    function: KernelFunction
    module: ModuleOp
    sequence: SequenceOp | None = None

    @property
    def ops(self) -> list[Operation]:
        """The function and its schedule, if any."""
        return [self.function, *([] if self.sequence is None else [self.sequence])]

    def to_send(self) -> str:
        """Return the text to compile in another process, with value names if code contains them."""
        if not kind_of(self.module).names_in_code:
            return self.text
        named = ModuleOp([op.clone() for op in self.ops], compile_attributes(self.module))
        originals = (each for op in self.ops for each in op.walk())
        for copy, op in zip(named.walk(), (named, *originals), strict=True):
            copy.location = op.location
        stream = StringIO()
        Printer(stream, print_debuginfo=True).print_op(named)
        return stream.getvalue()


def kind_of(module: ModuleOp) -> TargetKind:
    """Return the target kind that a module is compiled for.

    Raises:
        UnsupportedError: the target is not registered.
    """
    target = target_facts_of(module)
    return target_named(HOST_KIND if target is None else target.kind)


def make_unit(
    function: KernelFunction,
    module: ModuleOp,
    texts: CanonicalText,
    salt: str,
    sequence: SequenceOp | None = None,
) -> CompileUnit:
    """Return the compile unit of a function.

    Args:
        texts: writer of the canonical texts of this module.
        salt: everything else that the code depends on: the compiler's version and the pipeline.
        sequence: the function's schedule; None to let rules schedule it.
    """
    if sequence is not None:
        _rename(sequence, base_name(symbol_name(function)))
    text = texts.of(function, *([] if sequence is None else [sequence]))
    key = kept_as = _hash(f"{salt}\n{text}")
    if kind_of(module).names_in_code:
        names = [_names_in(op) for op in (function, sequence) if op is not None]
        kept_as = _hash(f"{key}\n{names}")
    name = f"{base_name(symbol_name(function))}_{key[:_DIGITS]}"
    return CompileUnit(key, kept_as, name, text, function, module, sequence)


def _rename(sequence: SequenceOp, function: str) -> None:
    """Rename the function that a schedule is for."""
    sequence.sym_name = StringAttr(f"{function}_schedule")
    sequence.function = SymbolRefAttr(function)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def _names_in(function: Operation) -> list[object]:
    """Return all names of values and nodes that may appear in the code."""
    names: list[object] = []
    places: dict[int, tuple[str, ...]] = {}
    for op in walk_ops(function):
        names.extend(result.name_hint for result in op.results)
        names.extend(a.name_hint for r in op.regions for b in r.blocks for a in b.args)
        place = op.location
        if id(place) not in places:
            places[id(place)] = node_names(place)
        names.append(places[id(place)])
    return names


def compile_unit(unit: CompileUnit, phases: Sequence[Phase]) -> Kernel:
    """Compile in this process, from the op itself, so that errors have source locations.

    The op is modified.
    """
    module = ModuleOp([], compile_attributes(unit.module))
    return _compile(unit.function, module, unit.name, phases, unit.sequence)


def compile_text(text: str, name: str, phases: Sequence[Phase]) -> Kernel:
    """Compile the text of a unit, to the same code as from the op."""
    from tcopt.support.syntax.parsing import TextParser

    module = TextParser(shared_context(), text).parse_module()
    function, *rest = module.ops
    assert isinstance(function, KernelFunction)
    sequence = rest[0] if rest else None
    assert sequence is None or isinstance(sequence, SequenceOp)
    for op in list(module.ops):
        op.detach()
    return _compile(function, module, name, phases, sequence)


def _compile(
    function: KernelFunction,
    module: ModuleOp,
    name: str,
    phases: Sequence[Phase],
    sequence: SequenceOp | None = None,
) -> Kernel:
    if sequence is None:
        return _compile_as_told(function, module, name, phases, None)
    optional = OPTIONAL in sequence.attributes
    spare, empty = function.clone(), ModuleOp([], dict(module.attributes))
    for copy, op in zip(spare.walk(), function.walk(), strict=True):
        copy.location = op.location
    try:
        return _compile_as_told(function, module, name, phases, sequence)
    except MemoryError:
        raise
    # Illegal schedules in a file may produce IR on which any later pass can fail.
    except Exception as error:
        reason = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
        if optional:
            kernel = _compile_as_told(spare, empty, name, phases, None)
            return replace(kernel, remarks=(_not_applied(reason), *kernel.remarks))
        if isinstance(error, TcoptError):
            raise
        raise ScheduleError(f"the schedule cannot be compiled: {reason}", op=sequence) from error


def _not_applied(reason: str) -> Remark:
    """Return a remark about a tuned schedule that is replaced by the default."""
    text = f"its tuned schedule does not apply, so it has the default: {reason}; tune again"
    return Remark("apply-tuning", "@", "", text, missed=True, slow=True)


def _compile_as_told(
    function: KernelFunction,
    module: ModuleOp,
    name: str,
    phases: Sequence[Phase],
    sequence: SequenceOp | None,
) -> Kernel:
    seconds: dict[str, float] = {}
    caller = caller_of(function, name)
    function.sym_name = StringAttr(name)
    module.body.block.add_ops([function, caller])
    if sequence is not None:
        _rename(sequence, name)
        module.body.block.add_op(sequence)
    placed = function.attributes.pop(TARGET_ATTRIBUTE, None)
    numbers: dict[str, str] = {}
    if isinstance(placed, TargetFacts):
        numbers = _number_places(function)
        module.attributes[TARGET_ATTRIBUTE] = placed
        phases = target_named(placed.kind).placed_phases()
    with collect_remarks() as remarks:
        for phase in phases:
            start = time.perf_counter()
            run_passes(module, phase.passes)
            seconds[phase.name] = time.perf_counter() - start
    start = time.perf_counter()
    caller = take_caller(module)
    made = kind_of(module).kernel_code(module, caller)
    caller.erase()
    seconds["code"] = time.perf_counter() - start
    return Kernel(
        symbol=symbol_of(name),
        code=made.code,
        externals=made.externals,
        workspace=made.workspace,
        parallel=any(isinstance(op, scf.ParallelOp) for op in walk_ops(module)),
        remarks=without_place(remarks),
        seconds=seconds,
        launches=made.launches,
        host_call=_with_numbers(made.host_call, numbers),
    )


def _number_places(function: KernelFunction) -> dict[str, str]:
    """Map each node to the label of its first op; ops without a node get their label as name."""
    numbers: dict[str, str] = {}
    for number, op in enumerate(function.walk()):
        names = node_names(op.location)
        if not names:
            op.location = NameLoc(StringAttr(op_label(number)), NoneAttr())
        for name in names:
            numbers.setdefault(name, op_label(number))
    return numbers


def _with_numbers(
    call: tuple[str, Mapping[str, Any]] | None, numbers: Mapping[str, str]
) -> tuple[str, Mapping[str, Any]] | None:
    return None if call is None else (call[0], with_nodes(call[1], numbers))


def caller_of(function: KernelFunction, name: str) -> func.FuncOp:
    """Return a host function that calls a kernel once, with its own sizes."""
    symbols = function_symbols(function)
    inputs = list(function.body.block.arg_types)
    results = list(function.function_type.outputs) if isinstance(function, te.FuncOp) else []
    tensors = inputs[: len(inputs) - len(symbols)]
    if isinstance(function, te.FuncOp):
        # Sizes of host functions on tensors are not arguments.
        inputs = tensors
    block = Block(arg_types=inputs)
    arguments = block.args[: len(tensors)]
    sizes = dims_attr(map(size_of, symbols))
    call: Operation
    if isinstance(function, te.FuncOp):
        call = te.CallOp(name, arguments, results, sizes)
    else:
        call = loop.CallOp(name, arguments, sizes)
    block.add_ops([call, func.ReturnOp(*call.results)])
    type_ = FunctionType.from_lists(inputs, results)
    caller = func.FuncOp(_CALLER, type_, Region(block), StringAttr("private"))
    set_function_symbols(caller, symbols)
    return caller


def take_caller(module: ModuleOp) -> func.FuncOp:
    """Detach the caller from the module and return it."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == _CALLER:
            op.detach()
            return op
    raise PassFailedError("the kernel passes removed the call of the kernel")
