"""LLVM's NVPTX code generator: PTX from LLVM IR text.

As for CPUs, no pipeline of IR passes is run, because the code is in its final shape. The code
generator itself promotes thread-private variables to registers, infers address spaces and shares
parts of addresses. If kernels call functions of libdevice, these are linked and unused ones are
removed.

An addition and a multiplication become one `fma.rn` if both have `fastmath<contract>` or the IR
has an `fma`; all other arithmetic has explicit rounding (`add.rn`), which ptxas preserves.
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from tcopt.backends.llvm.machine.machine import CODEGEN_LEVEL, parse_llvm
from tcopt.backends.ptx import cuda_files
from tcopt.backends.ptx.emitter import LIBRARY_PREFIX
from tcopt.backends.ptx.module import TRIPLE
from tcopt.dialects.target import GpuTargetAttr
from tcopt.support.errors import InputError, UnsupportedError


@cache
def target_machine(target: GpuTargetAttr) -> llvm.TargetMachine:
    """Return LLVM's target machine for a device.

    Raises:
        InputError: the target is not a CUDA device, or LLVM was built without NVPTX.
    """
    if "cuda" not in target.capabilities:
        raise InputError(
            f"{target.arch.data} with {target.kind} does not support PTX",
            hint="name a CUDA device, as in set-target{gpu=sm_80}",
        )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        found = llvm.Target.from_triple(TRIPLE)
    except RuntimeError as error:
        raise InputError("this LLVM has no NVPTX target", hint=str(error)) from error
    versions = [f"+{name}" for name in target.features.data.split(",") if name.startswith("ptx")]
    return found.create_target_machine(
        cpu=target.arch.data, features=",".join(versions), opt=CODEGEN_LEVEL
    )


def data_layout(target: GpuTargetAttr) -> str:
    """Return the data layout string of modules for a device."""
    return str(target_machine(target).target_data)


def assemble_ptx(text: str, target: GpuTargetAttr) -> str:
    """Return the PTX of LLVM IR text.

    Raises:
        BackendError: LLVM rejects the text.
        UnsupportedError: it calls functions of libdevice, which is not installed.
    """
    module = parse_llvm(text)
    wanted = [f.name for f in module.functions if f.name.startswith(LIBRARY_PREFIX)]
    if wanted:
        _link_library(module, wanted, target)
    return target_machine(target).emit_assembly(module)


def _link_library(module: llvm.ModuleRef, wanted: list[str], target: GpuTargetAttr) -> None:
    """Link the definitions of called library functions, and of the functions that these call."""
    path = cuda_files.find_libdevice()
    if path is None:
        names = ", ".join(name.removeprefix(LIBRARY_PREFIX) for name in sorted(wanted))
        raise UnsupportedError(
            f"kernels call {names}, but NVIDIA's libdevice is not installed", hint=cuda_files.HINT
        )
    library = llvm.parse_bitcode(path.read_bytes())
    library.triple, library.data_layout = module.triple, module.data_layout
    module.link_in(library)
    for function in module.functions:
        if function.name.startswith(LIBRARY_PREFIX) and not function.is_declaration:
            function.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    passes.run(module, llvm.create_pass_builder(target_machine(target), options))
