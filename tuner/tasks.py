"""The kernels of a model as tasks: what each computes, and how much of a run it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from tcopt.compiler.content import Source
from tcopt.compiler.driver import Imported
from tcopt.compiler.passes import run_passes
from tcopt.compiler.pipeline import kernel_phases, pipeline
from tcopt.compiler.units import kind_of
from tcopt.dialects.graph import ReshapeOp
from tcopt.dialects.graph.constant import ConstantOp
from tcopt.dialects.graph.weights import release_weights
from tcopt.dialects.target import TARGET_ATTRIBUTE, TargetFacts
from tcopt.dialects.te import CallOp, FuncOp
from tcopt.frontends.onnx.model.lists import Shapes
from tcopt.runtime.profile import Profile
from tcopt.schedules.tuning.workloads import anchor_key, key_of, target_text, workload_text
from tcopt.support.canonical_text import base_name, compile_attributes, symbol_name
from tcopt.support.dtypes import is_narrow, numpy_dtype
from tcopt.support.errors import UnsupportedError
from tcopt.support.origins import call_origin
from tcopt.support.phases import Phase
from tcopt.support.target_registry import find_target, target_named
from tcopt.tuner.arguments import INPUT, OUTPUT, WEIGHT, Argument

Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """A kernel of a model, for one target.

    Attributes:
        key: of the workload: equal for equal kernels of all models and targets.
        anchor: equal where only what comes after the main stage differs.
        name: of the function, for people; `nodes`: the ONNX nodes that it computes.
        functions: those of the module that are this kernel.
        text: a module with the function in it, for who compiles it.
        te_text: the function alone, without its name.
        target: what it is compiled for, as text; `kind`: its kind, such as `cpu`.
        arguments: inputs, weights and outputs; none where it cannot be measured.
        phases: what compiles it: names and passes, as text.
        work: scalar operations of a call, as the graph counts them.
        calls: how often a run of the model calls it.
        ns: what a call takes as it is, 0 where nobody has measured it.
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
        """A hash of the target."""
        return key_of(self.target)

    @property
    def weight(self) -> float:
        """Nanoseconds of a run of the model that are spent in it."""
        return self.calls * self.ns

    @property
    def bytes(self) -> int:
        """Bytes of all its arguments."""
        return sum(argument.size for argument in self.arguments)


def tasks_of(
    source: Source,
    target: str = "cpu",
    *,
    shapes: Shapes | None = None,
    values: Mapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
    accuracy: str = "",
    precision: str = "",
    phases: Sequence[Phase] | None = None,
) -> list[Task]:
    """The kernels of a model, each once, in the order of their first calls.

    Args:
        source, target, shapes, values, dims, accuracy, precision: as `tcopt.compile` takes them.
        phases: the pipeline, if it is another one than these give.
    Raises:
        TcoptError: the model is malformed or not supported, or its shapes are open.
    """
    given = {k: v for k, v in (("accuracy", accuracy), ("precision", precision)) if v}
    found = list(phases) if phases is not None else pipeline(target, **given)
    # Calls then know their nodes and their work.
    named = find_target(target)[0].timed_pipeline(found)
    module = Imported(source, shapes or {}, values or {}, dims=dims).module()
    by_name = {phase.name: phase for phase in named}
    for name in ("graph", "te"):
        run_passes(module, by_name[name].passes)
    try:
        return tasks_in(module, found)
    finally:
        release_weights(module)


def tasks_in(module: ModuleOp, phases: Sequence[Phase]) -> list[Task]:
    """The kernels of a module at the te level, each once.

    One whose function may be given what no process can be sent, such as strings, has no arguments.
    Functions that no op calls are left out. A function that is placed on an accelerator is one for
    its target.
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
            work=call_origin(here[0]).work,
            calls=len(here),
        )
    return list(tasks.values())


def _alone(function: FuncOp, module: ModuleOp) -> ModuleOp:
    """A function in a module of its own, for the target that it is compiled for."""
    alone = ModuleOp([function.clone()], compile_attributes(module))
    (copy,) = alone.ops
    placed = copy.attributes.pop(TARGET_ATTRIBUTE, None)
    if placed is not None:
        alone.attributes[TARGET_ATTRIBUTE] = placed
    return alone


def _phases(function: FuncOp, phases: Sequence[Phase]) -> Sequence[Phase]:
    """What a function is compiled by, in a program that these phases compile."""
    placed = function.attributes.get(TARGET_ATTRIBUTE)
    if isinstance(placed, TargetFacts):
        return target_named(placed.kind).placed_phases()
    return kernel_phases(phases)


def _arguments(function: FuncOp, calls: Sequence[CallOp]) -> tuple[Argument, ...]:
    """What a function is given; nothing where it is nothing that can be made up."""
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
    """Tasks with the time of their calls, by a profile of the same model, the longest first."""
    times = {entry.kernel: (entry.us * 1e3, entry.calls) for entry in profile.by_kernel()}
    found: list[Task] = []
    for task in tasks:
        own = [times[name] for name in task.functions if name in times]
        calls = sum(count for _, count in own)
        if calls:
            task = replace(task, ns=sum(ns for ns, _ in own) / calls, calls=calls)
        found.append(task)
    return sorted(found, key=lambda task: -task.weight)
