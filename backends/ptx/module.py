"""Translation of a kernel-level module to LLVM IR for NVPTX, with an entry point for each kernel.

The launch attributes of a kernel become bounds that ptxas uses for register allocation. Buffers do
not alias, and their alignment is given by the argument attribute `llvm.align`.
"""

from __future__ import annotations

from math import gcd, prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from tcopt.backends.kernels import is_read_only, kernels_of
from tcopt.backends.llvm.emit.emitter import ModuleState
from tcopt.backends.llvm.module import argument_alignment, assemble
from tcopt.backends.ptx.emitter import GLOBAL, SHARED, KernelEmitter, Sizes
from tcopt.backends.ptx.names import dynamic_name, entry_name
from tcopt.backends.ptx.ops.memref import shared_bytes
from tcopt.backends.ptx.ptxas import MULTIPROCESSOR_REGISTERS
from tcopt.dialects.memory_sizes import live_bytes
from tcopt.dialects.simt import MmaSyncOp
from tcopt.dialects.size import buffer_types
from tcopt.dialects.target import GpuTargetAttr
from tcopt.passes.kernel.lowering.thread_axes import BLOCK_SIZE, GRID_SIZE, sizes_of
from tcopt.support.arithmetic.sizes import coefficients
from tcopt.support.errors import UnsupportedError
from tcopt.support.machines.alignment import ALIGNMENT

TRIPLE = "nvptx64-nvidia-cuda"

_METADATA = """!0 = distinct !{!0}
!2 = !{i32 1}
!3 = distinct !{!3, !4}
!4 = !{!"llvm.loop.unroll.disable"}"""
"""Metadata of loops and accesses, see `loop_metadata`, and `ops/memref.py` of `backends.llvm`.
Most loops have no unroll metadata here, so ptxas decides about unrolling."""


def emit_kernels(
    module: ModuleOp, target: GpuTargetAttr, data_layout: str = "", *, planned: bool = False
) -> str:
    """Return the LLVM IR text of all kernels, the functions marked `gpu.kernel`, of a module.

    Args:
        planned: whether buffer arguments are buffers of a memory plan, or slices of them, which
            are aligned to their size.
    Raises:
        UnsupportedError: an op or type has no PTX form.
    """
    state = ModuleState(capabilities=frozenset(target.features.data.split(",")))
    for function in kernels_of(module):
        emit_kernel(function, state, target, planned)
    return assemble(state, TRIPLE, data_layout, _METADATA)


def emit_kernel(function: FuncOp, state: ModuleState, target: GpuTargetAttr, planned: bool) -> None:
    """Emit one kernel into `state.functions`."""
    name = entry_name(function.sym_name.data)
    grid, block = (sizes_of(function, size) for size in (GRID_SIZE, BLOCK_SIZE))
    e = KernelEmitter(state, name, target, grid, block)
    arguments = function.body.block.args
    # The built-in shapes of these types are upper bounds.
    types = buffer_types(function)
    e.choose_index([_buffer_type(function, type) for type in types if type != IndexType()])
    parameters: list[str] = []
    for number, (argument, full) in enumerate(zip(arguments, types, strict=True)):
        root = f"%arg{number}"
        e.depths[root] = 0
        if full == IndexType():
            e.define(argument, root)
            parameters.append(f"{e.index_type} {root}")
            continue
        type = _buffer_type(function, full)
        alignment = argument_alignment(function, number, type)
        if planned:
            alignment = max(alignment, gcd(ALIGNMENT, *coefficients(live_bytes(type))))
        e.bind_buffer(argument, root, GLOBAL, alignment)
        access = "readonly " if is_read_only(argument) else ""
        parameters.append(
            f"{e.pointer_type(root)} noalias nonnull {access}align {alignment} {root}"
        )
    allocas = [op for op in function.walk() if isinstance(op, memref.AllocaOp)]
    shared = sum(map(shared_bytes, allocas))
    if shared > target.shared.data:
        e.dynamic = dynamic_name(name, shared)
        state.globals[e.dynamic] = (
            f"@{e.dynamic} = external addrspace({SHARED}) global [0 x i8], align {ALIGNMENT}"
        )
    e.emit_block(function.body.block)
    e.write("  ret void")
    attributes = [f'"nvvm.reqntid"="{",".join(map(str, block))}"']
    if any(isinstance(op, MmaSyncOp) for op in function.walk()):
        # By default ptxas limits registers so that more blocks fit on a multiprocessor, but their
        # tiles would not fit in shared memory.
        attributes.append(f'"nvvm.maxnreg"="{target.registers.data}"')
    elif _is_small(grid, block, target):
        # Left to itself, ptxas spills registers for more blocks at once than there are.
        attributes.append('"nvvm.minctasm"="1"')
    state.functions.append(
        f"define ptx_kernel void @{name}({', '.join(parameters)}) nounwind "
        f"{' '.join(attributes)} {{\n{e.body_text()}\n}}"
    )


def _is_small(grid: Sizes, block: Sizes, target: GpuTargetAttr) -> bool:
    """Whether the blocks of a multiprocessor fit at once, whatever registers threads take."""
    blocks = -(-prod(grid) // target.cores.data)
    return blocks * prod(block) * target.registers.data <= MULTIPROCESSOR_REGISTERS


def _buffer_type(function: FuncOp, type: Attribute) -> MemRefType[Attribute]:
    if not isa(type, MemRefType):
        raise UnsupportedError(f"a kernel cannot take an argument of type {type}", op=function)
    return type
