"""LLVM's NVPTX code generator: PTX from LLVM IR text.

As for CPUs no pipeline of IR passes runs, the code is in its final shape; what the code generator
runs itself brings variables of a thread into registers, narrows addresses to their memory and
shares parts of addresses. Only where kernels call functions of libdevice are these linked, the
unused ones removed.

An addition and a multiplication become one `fma.rn` where both carry `fastmath<contract>` or the
IR has an `fma`; all other arithmetic is written with its rounding (`add.rn`), which ptxas leaves
as it is.
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm

from tcopt.backends.llvm.machine.machine import CODEGEN_LEVEL, parse_llvm
from tcopt.backends.ptx.emitter import LIBRARY_PREFIX
from tcopt.backends.ptx.module import TRIPLE
from tcopt.dialects.target import GpuTargetAttr
from tcopt.support import cuda_files
from tcopt.support.errors import InputError, UnsupportedError


@cache
def target_machine(target: GpuTargetAttr) -> llvm.TargetMachine:
    """LLVM's description of a device.

    Raises:
        InputError: the target is not a CUDA device, or LLVM was built without NVPTX.
    """
    if "cuda" not in target.capabilities:
        raise InputError(
            f"{target.arch.data} with {target.kind} takes no PTX",
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
    """The data layout string of modules for a device."""
    return str(target_machine(target).target_data)


def assemble_ptx(text: str, target: GpuTargetAttr) -> str:
    """PTX of LLVM IR text.

    Raises:
        BackendError: LLVM does not take the text.
        UnsupportedError: it calls functions of libdevice, which is not there.
    """
    module = parse_llvm(text)
    wanted = [f.name for f in module.functions if f.name.startswith(LIBRARY_PREFIX)]
    if wanted:
        _link_library(module, wanted, target)
    return target_machine(target).emit_assembly(module)


def _link_library(module: llvm.ModuleRef, wanted: list[str], target: GpuTargetAttr) -> None:
    """Add the bodies of functions that are called, and of those that they call."""
    path = cuda_files.find_libdevice()
    if path is None:
        names = ", ".join(name.removeprefix(LIBRARY_PREFIX) for name in sorted(wanted))
        raise UnsupportedError(
            f"kernels call {names}, and NVIDIA's libdevice is not here", hint=cuda_files.HINT
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
