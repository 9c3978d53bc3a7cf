"""The kernels of a model as tuning tasks, with their share of the run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.compiler.options import CompileOptions
from tcopt.compiler.passes import run_passes
from tcopt.compiler.pipeline import kernel_phases
from tcopt.compiler.units import kind_of
from tcopt.dialects.graph import ReshapeOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.weights import release_weights
from tcopt.dialects.origins import call_origin
from tcopt.dialects.target import TARGET_ATTRIBUTE, TargetFacts
from tcopt.dialects.te import CallOp, FuncOp
from tcopt.frontends.onnx.importer import import_first_stage
from tcopt.frontends.onnx.model.options import Source
from tcopt.runtime.profile import Profile
from tcopt.schedules.tuning.workloads import anchor_key, key_of, target_text, workload_text
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.data.dtypes import is_narrow, numpy_dtype
from tcopt.support.errors import UnsupportedError
from tcopt.support.pipelines.phases import Phase
from tcopt.support.registries.target_registry import target_named
from tcopt.support.syntax.canonical_text import base_name, compile_attributes, symbol_name
from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT, Argument


@dataclass(frozen=True)
class Task:
    """A kernel of a model, for one target.

    Attributes:
        key: of the workload: equal for equal kernels of all models and targets.
        anchor: equal for kernels that differ only after the main stage.
        name: of the function, for display; `nodes`: the ONNX nodes that it computes.
        functions: symbols of the module's functions that are this kernel.
        text: a module with the function, to be compiled.
        te_text: the function alone, without its name.
        target: attribute of the target, as text; `kind`: its kind, such as `cpu`.
        arguments: inputs, weights and outputs; empty if it cannot be measured.
        phases: names and passes of the pipeline that compiles it, as text.
        work: scalar operations of a call, as the graph counts them.
        calls: number of calls in a run of the model.
        ns: current time of a call, 0 if it was not measured.
    """

    key: str
    anchor: str
    name: str
    functions: tuple[str, ...]
    nodes: tuple[str, ...]
    text: str
    te_text: str
    target: str
    kind: str
    arguments: tuple[Argument, ...]
    phases: tuple[tuple[str, str], ...]
    work: int = 0
    calls: int = 1
    ns: float = 0.0

    @property
    def target_key(self) -> str:
        """Key of the target: a hash of its text."""
        return key_of(self.target)

    @property
    def weight(self) -> float:
        """Nanoseconds that a run of the model spends in the kernel."""
        return self.calls * self.ns

    @property
    def bytes(self) -> int:
        """Total size of all arguments in bytes."""
        return sum(argument.size for argument in self.arguments)


def tasks_of(source: Source, options: CompileOptions) -> list[Task]:
    """Return the distinct kernels of a model, in the order of their first calls.

    Raises:
        TcoptError: the model is malformed or not supported, or its shapes are open.
    """
    # The timed pipeline records the nodes and the work of calls.
    by_name = {phase.name: phase for phase in replace(options, timed=True).phases}
    module = import_first_stage(source, options)
    for name in ("graph", "te"):
        run_passes(module, by_name[name].passes)
    try:
        return tasks_in(module, options.phases)
    finally:
        release_weights(module)


def tasks_in(module: ModuleOp, phases: Sequence[Phase]) -> list[Task]:
    """Return the distinct kernels of a module at the te level.

    A task has no arguments if some cannot be sent to a process, such as strings. Functions that are
    never called are skipped. A function that is placed on an accelerator becomes a task for that
    target.
    """
    calls: dict[str, list[CallOp]] = {}
    for op in module.walk():
        if isinstance(op, CallOp):
            calls.setdefault(op.callee.string_value(), []).append(op)
    tasks: dict[tuple[str, str], Task] = {}
    for function in module.ops:
        if not isinstance(function, FuncOp) or symbol_name(function) not in calls:
            continue
        here = calls[symbol_name(function)]
        te_text, target = workload_text(function), target_text(module, function)
        place = key_of(te_text), target
        nodes = tuple(dict.fromkeys(n for call in here for n in call_origin(call).nodes))
        if place in tasks:
            known = tasks[place]
            tasks[place] = replace(
                known,
                calls=known.calls + len(here),
                nodes=(*known.nodes, *nodes),
                functions=(*known.functions, symbol_name(function)),
            )
            continue
        alone = _alone(function, module)
        tasks[place] = Task(
            key=place[0],
            anchor=anchor_key(function),
            name=base_name(symbol_name(function)),
            functions=(symbol_name(function),),
            nodes=nodes,
            text=str(alone),
            te_text=te_text,
            target=target,
            kind=kind_of(alone).name,
            arguments=_arguments(function, here),
            phases=tuple((phase.name, phase.text) for phase in _phases(function, phases)),
            work=upper_bound(call_origin(here[0]).work),
            calls=len(here),
        )
    return list(tasks.values())


def _alone(function: FuncOp, module: ModuleOp) -> ModuleOp:
    """Return a function in a module of its own, for the target that it is compiled for."""
    alone = ModuleOp([function.clone()], compile_attributes(module))
    (copy,) = alone.ops
    placed = copy.attributes.pop(TARGET_ATTRIBUTE, None)
    if placed is not None:
        alone.attributes[TARGET_ATTRIBUTE] = placed
    return alone


def _phases(function: FuncOp, phases: Sequence[Phase]) -> Sequence[Phase]:
    """Return the phases that compile a function, in a program with the given pipeline."""
    placed = function.attributes.get(TARGET_ATTRIBUTE)
    if isinstance(placed, TargetFacts):
        return target_named(placed.kind).placed_phases()
    return kernel_phases(phases)


def _arguments(function: FuncOp, calls: Sequence[CallOp]) -> tuple[Argument, ...]:
    """Return the arguments of a function; empty if values for some cannot be generated."""
    found: list[Argument] = []
    for number, type_ in enumerate(function.function_type.inputs):
        is_weight = all(_is_weight(call.operands[number]) for call in calls)
        argument = _argument(type_, WEIGHT if is_weight else INPUT)
        if argument is None:
            return ()
        found.append(argument)
    for type_ in function.function_type.outputs:
        argument = _argument(type_, OUTPUT)
        if argument is None:
            return ()
        found.append(argument)
    return tuple(found)


def _is_weight(value: SSAValue) -> bool:
    """Whether a value is a constant of the model, or a view of one."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.operands[0]
    return isinstance(value.owner, ConstantOp)


def _argument(type_: Attribute, role: str) -> Argument | None:
    if not isa(type_, TensorType) or is_narrow(type_.element_type):
        return None
    try:
        dtype = numpy_dtype(type_.element_type)
    except UnsupportedError:
        return None
    if dtype.kind == "O":
        return None
    return Argument(tuple(type_.get_shape()), dtype.name, role)


def with_times(tasks: Sequence[Task], profile: Profile) -> list[Task]:
    """Return tasks with call times from a profile of the same model, the longest first."""
    times = {entry.kernel: (entry.us * 1e3, entry.calls) for entry in profile.by_kernel()}
    found: list[Task] = []
    for task in tasks:
        own = [times[name] for name in task.functions if name in times]
        calls = sum(count for _, count in own)
        if calls:
            task = replace(task, ns=sum(ns for ns, _ in own) / calls, calls=calls)
        found.append(task)
    return sorted(found, key=lambda task: -task.weight)
