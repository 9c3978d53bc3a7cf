"""Run a network's passes under the check, with a fault planted after one of them.

Times are CPU times of this process and of those that run native code, so that other load on the
machine hardly matters.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from onnx import ModelProto
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from faults.planted import USER_PASSES, Fault
from models import convolutional
from models.network import Network
from tcopt.compiler import pipeline
from tcopt.frontends.onnx import import_model
from tcopt.support.errors import TcoptError
from tcopt.support.pipelines.phases import pipeline_text
from tcopt.support.pipelines.running import Instrument, new_context, run_passes
from tcopt.support.pipelines.text import parse_pipeline
from tcopt.support.processes.child_process import processor_time
from tcopt.support.registries.plugins import plugins_loaded
from tcopt.support.registries.registry import all_passes
from tcopt.tools.execution.exec_check import ExecCheck
from tcopt.tools.execution.native_process import native_process

TARGET = "cpu:haswell"


def _softmax() -> ModelProto:
    net = Network("softmax")
    x = net.input("x", [4, 12])
    return net.model(**{net.add("Softmax", net.gemm(x, 12, 20), axis=1): [4, 20]})


NETWORKS: dict[str, Callable[[], ModelProto]] = {
    "small": lambda: convolutional.residual_net(15, 8, 10),
    "softmax": _softmax,
    "resnet18": convolutional.resnet18,
}


def _used() -> float:
    """Return the processor seconds used by this process, its ended children and the native one."""
    child = native_process().pid
    return sum(os.times()[:4]) + (0.0 if child is None else processor_time(child) or 0.0)


class Faulty:
    """A pass with an edit applied to its result."""

    def __init__(self, real: ModulePass, fault: Fault):
        self.real, self.fault, self.name = real, fault, real.name

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.real.apply(ctx, op)
        assert self.fault.edit is not None
        self.fault.edit(op)


@dataclass
class _Marks(Instrument):
    """Saved state before each pass, from which a run can be resumed."""

    check: ExecCheck
    states: list[tuple[ModuleOp, ExecCheck, float]] = field(default_factory=list[Any])
    began: float = field(default_factory=_used)

    def before(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        self.states.append((module.clone(), self.check.fork(), _used() - self.began))


@dataclass
class Outcome:
    """Result of a run with a fault.

    Attributes:
        message: the check's message; empty if it found nothing.
        seconds: CPU time from the first pass to the message.
        share: `seconds` relative to the CPU time of a clean run.
    """

    message: str
    seconds: float
    share: float

    def names(self, name: str) -> bool:
        """Whether the message blames this pass alone."""
        return f"pass '{name}'" in self.message and "' or '" not in self.message


class Checked:
    """A network after a pipeline run under the check."""

    def __init__(self, network: str):
        self.passes = list(_passes())
        self.check = ExecCheck()
        self.marks = _Marks(self.check)
        module = import_model(NETWORKS[network]())
        self.ctx = new_context()
        started = _used()
        run_passes(self.ctx, module, self.passes, [self.marks, self.check])
        self.seconds = _used() - started
        self.marks.states.append((module.clone(), self.check.fork(), self.seconds))

    def plant(self, fault: Fault) -> Outcome:
        """Run the rest of the pipeline with a fault."""
        index = next(n for n, each in enumerate(self.passes) if each.name == fault.behind)
        rest = list(self.passes[index:])
        if fault.edit is not None:
            rest[0] = Faulty(rest[0], fault)  # pyright: ignore
        else:
            index += 1
            (rest[0],) = _user_pass(fault.user)
        module, check, before = self.marks.states[index]
        check = _Going(check.fork())
        copy, message, started = module.clone(), "", _used()
        try:
            run_passes(self.ctx, copy, rest, [check])
        except TcoptError as error:
            message = str(error)
        seconds = before + _used() - started
        return Outcome(message, seconds, seconds / self.seconds)


@dataclass
class _Going(Instrument):
    """A check in progress."""

    check: ExecCheck

    def after(self, index: int, module_pass: ModulePass, module: ModuleOp) -> None:
        self.check.after(index, module_pass, module)

    def finish(self, module: ModuleOp) -> None:
        self.check.finish(module)


def _user_pass(name: str) -> tuple[ModulePass, ...]:
    with plugins_loaded([USER_PASSES]):
        return parse_pipeline(name)


def _passes() -> tuple[ModulePass, ...]:
    return parse_pipeline(pipeline_text(pipeline(TARGET)), all_passes())


@cache
def checked(network: str) -> Checked:
    """Return a network after a clean run, shared by all its faults."""
    return Checked(network)
