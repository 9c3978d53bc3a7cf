"""Execution of compiled functions in this process, for tests that trust the code.

Code is generated for this machine, whatever the module's target: the meaning of ops does not depend
on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import MemRefType, ModuleOp

from tcopt.backends.llvm.jit import compile_module
from tcopt.backends.llvm.machine.host import host_target
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.dialects.target import TARGET_ATTRIBUTE, CpuTargetAttr
from tcopt.runtime.build import build_program

Array = NDArray[Any]


def run_function(module: ModuleOp, name: str, arguments: Sequence[Array]) -> list[Array]:
    """Call a function of a module; buffers change in place. Return its scalar result, if any."""
    function = compile_module(module, host_target()).function(name)
    values = [
        array if isinstance(type_, MemRefType) else array.item()
        for array, type_ in zip(arguments, function.inputs, strict=True)
    ]
    result = function(*values)
    return [] if result is None else [np.asarray(result)]


def run_planned(module: ModuleOp, inputs: Sequence[Array]) -> list[Array]:
    """Compile and run @main after `plan-memory`; return its results."""
    here = module.clone()
    here.attributes[TARGET_ATTRIBUTE] = CpuTargetAttr.of(host_target())
    program = build_program(here, weights_of(module) or {})
    return [np.array(result) for result in program.run([np.ascontiguousarray(a) for a in inputs])]
