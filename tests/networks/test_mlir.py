"""Kernel-level modules of networks against MLIR 19: parsed, lowered, equal results."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from itertools import count

import llvmlite.binding as llvm
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from models import convolutional, transformers
from models.light_models import light_model, random_inputs
from tcopt.backends.llvm.jit_link import _jit
from tcopt.backends.llvm.machine.host import host_target
from tcopt.backends.llvm.machine.machine import parse_llvm, target_machine
from tcopt.backends.llvm.runtime import helper_addresses
from tcopt.compiler import lower, pipeline
from tcopt.dialects.graph.core.weights import weights_of
from tcopt.frontends.onnx import import_model
from tcopt.passes.kernel.cleanup.export_to_mlir import ExportToMlirPass
from tcopt.runtime.build import build_program
from tcopt.runtime.program import Program, aligned_empty
from tcopt.support.pipelines.running import new_context

pytestmark = pytest.mark.skipif(
    shutil.which("mlir-opt-19") is None or shutil.which("mlir-translate-19") is None,
    reason="needs mlir-opt-19 and mlir-translate-19",
)

# Tolerance relative to the output's range: MLIR's code has the same operations in the same order,
# but LLVM may select other instructions for a few of them.
TOLERANCE = 1e-6

_NUMBERS = count()
_LOWERING = (
    "--lower-affine",
    "--expand-strided-metadata",
    "--convert-scf-to-cf",
    "--convert-vector-to-llvm",
    "--convert-math-to-llvm",
    "--convert-arith-to-llvm",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm=use-bare-ptr-memref-call-conv=1",
    "--convert-cf-to-llvm",
    "--reconcile-unrealized-casts",
)


def kernel_module(model) -> ModuleOp:
    """Return a model lowered to the kernel level."""
    module = import_model(model)
    lower(module, pipeline())
    return module


def exported(module: ModuleOp) -> str:
    """Return the text of a module after `export-to-mlir`."""
    ExportToMlirPass().apply(new_context(), module)
    return str(module)


def run_tool(*command: str, input: str) -> str:
    """Return the standard output of a command that must succeed."""
    done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


def run_through_mlir(text: str, program: Program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the results of @main lowered by MLIR's passes, on the program's weights."""
    lowered = run_tool("mlir-opt-19", *_LOWERING, input=text)
    code = run_tool("mlir-translate-19", "--mlir-to-llvmir", input=lowered)
    data = target_machine(host_target()).emit_object(parse_llvm(code))
    library = llvm.JITLibraryBuilder().add_object_img(data).export_symbol("main")
    for name, address in helper_addresses().items():
        library.import_symbol(name, address)
    tracker = library.link(_jit(), f"mlir_network{next(_NUMBERS)}")
    outputs = [np.full(spec.shape, np.nan, spec.dtype) for spec in program.outputs]
    checks = [np.ones(spec.shape, spec.dtype) for spec in program.checks]
    workspace = aligned_empty(program.workspace_bytes)
    arrays = [*inputs, *outputs, *checks, program.weights, workspace]
    main = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(tracker["main"])
    main(*(array.ctypes.data for array in arrays))
    assert not any(map(np.any, checks))
    return outputs


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["light_squeezenet"])
def test_kernel_level_is_mlir(name: str) -> None:
    """Exported text is parsed without `--allow-unregistered-dialect`."""
    module = kernel_module(light_model(name))
    run_tool("mlir-opt-19", input=exported(module))


@pytest.mark.nightly(daily=["bert_block"])
@pytest.mark.parametrize(
    "build",
    [convolutional.residual_net, lambda: convolutional.unet(16, 4), transformers.bert_block],
    ids=["residual_net", "unet", "bert_block"],
)
def test_mlir_lowers_scheduled_kernels_to_the_same_numbers(build) -> None:
    """Tiled, vectorised kernels and the host program that calls them."""
    model = build()
    module = kernel_module(model)
    program = build_program(module, weights_of(module))
    inputs = list(random_inputs(model).values())
    expected = program.run(inputs)
    text = exported(module)
    for ours, theirs in zip(expected, run_through_mlir(text, program, inputs), strict=True):
        assert np.abs(ours - theirs).max() <= TOLERANCE * np.ptp(ours)
