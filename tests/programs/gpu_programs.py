"""Programs scheduled for GPUs, run on the kernel interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp as KernelOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Region

from tcopt.backends.named_gpus import named_gpu
from tcopt.compiler.passes import run_passes
from tcopt.dialects import loop
from tcopt.dialects.gpu_kernels import KERNEL
from tcopt.dialects.target import TARGET_ATTRIBUTE, GpuTargetAttr
from tcopt.dialects.te import api as te
from tcopt.interpreters.kernel import run_kernel
from tcopt.passes.loop.bufferize.stage_nests import lower_function
from tcopt.schedules import Schedule
from tcopt.schedules.api.handles import Block as ScheduledBlock
from tcopt.schedules.api.handles import Loop

LOOP_PASSES = (
    "compact-buffers,align-storage,lower-blocks,lower-thread-reductions,"
    "inject-virtual-threads,double-buffer,insert-barriers,vectorize,unroll-loops,"
    "lower-loop-to-kernel"
)
SCHEDULE_PASSES = "schedule,apply-schedule"
KERNEL_PASSES = "promote-registers,dce"


def matmul(m: int, n: int, depth: int) -> loop.FuncOp:
    """y[i, j] = sum of a[i, k] * b[k, j] over k."""
    a = te.placeholder((m, depth), name="a")
    b = te.placeholder((depth, n), name="b")
    k = te.reduce_axis(depth, "k")
    y = te.compute((m, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="y")
    return lower_function(te.func("matmul", [a, b], [y]))


def row_sums(rows: int, columns: int) -> loop.FuncOp:
    """y[i] = sum of x[i, k] over k."""
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis(columns, "k")
    y = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="y")
    return lower_function(te.func("row_sums", [x], [y]))


def share_rows(sch: Schedule, threads: int, rows: int) -> None:
    """Several threads for each row, whose sums are combined; several rows for each block."""
    _, k = sch.get_loops("y")
    _, part = sch.split(k, [None, threads])
    partial = sch.rfactor(part)
    i, step, thread = sch.get_loops(partial)
    sch.reorder(thread, step)
    block, row = sch.split(i, [None, rows])
    sch.bind(block, "blockIdx.x")
    sch.bind(row, "threadIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.set_scope(partial, "register")
    sch.bind(sch.get_loops("y")[-1], "threadIdx.x")


@dataclass(frozen=True)
class Tiling:
    """Distribution of a matrix product over threads; pairs are for rows and columns.

    Attributes:
        own: contiguous elements of a thread.
        threads: threads of a block.
        virtual: number of virtual threads.
        depth: reduction extent of a tile in shared memory.
        vector: elements loaded at a time.
        padding: elements added to the rows of shared tiles.
    """

    own: tuple[int, int] = (2, 2)
    threads: tuple[int, int] = (4, 4)
    virtual: tuple[int, int] = (1, 1)
    depth: int = 4
    vector: int = 1
    padding: int = 0
    double_buffer: bool = False
    unroll: bool = False


def tile_matmul(sch: Schedule, tiling: Tiling) -> None:
    """Schedule tiles of both factors in shared memory, and a tile of sums in each thread's
    registers."""
    y = sch.get_block("y")
    out = sch.cache_write(y, "register")
    i, j, k = sch.get_loops(y)
    factors = list(zip(tiling.virtual, tiling.threads, tiling.own, strict=True))
    block_i, virtual_i, thread_i, own_i = sch.split(i, [None, *factors[0]])
    block_j, virtual_j, thread_j, own_j = sch.split(j, [None, *factors[1]])
    k_outer, k_inner = sch.split(k, [None, tiling.depth])
    outer = (block_i, block_j, virtual_i, virtual_j, thread_i, thread_j)
    sch.reorder(*outer, k_outer, k_inner, own_i, own_j)
    sch.bind(block_i, "blockIdx.y")
    sch.bind(block_j, "blockIdx.x")
    sch.bind(thread_i, "threadIdx.y")
    sch.bind(thread_j, "threadIdx.x")
    sch.virtual_thread(virtual_i)
    sch.virtual_thread(virtual_j)
    sch.reverse_compute_at(out, thread_j)
    sch.decompose_reduction(y, k_outer)
    for name in ("a", "b"):
        copy = sch.cache_read(y, name, "shared")
        fetch_together(sch, copy, k_outer, tiling.threads, tiling.vector)
        if tiling.padding:
            sch.storage_align(copy, 0, tiling.padding + 1, tiling.padding)
        if tiling.double_buffer:
            sch.double_buffer(copy)
    if tiling.unroll:
        for loop_ in (k_inner, own_i, own_j):
            sch.unroll(loop_)


def fetch_together(
    sch: Schedule, copy: ScheduledBlock, at: Loop, threads: tuple[int, int], vector: int = 1
) -> None:
    """Let all threads of a block fill a shared buffer."""
    sch.compute_at(copy, at)
    loops = sch.get_loops(copy)
    inner = loops[loops.index(at) + 1 :]
    whole = sch.fuse(*inner) if len(inner) > 1 else inner[0]
    _, y, x, lanes = sch.split(whole, [None, *threads, vector])
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    if vector > 1:
        sch.vectorize(lanes)


def kernel_of(
    function: loop.FuncOp, target: GpuTargetAttr | None = None, passes: str = LOOP_PASSES
) -> KernelOp:
    """Return a scheduled function as a kernel."""
    module = ModuleOp([function], {TARGET_ATTRIBUTE: target or named_gpu("opencl")})
    run_passes(module, f"{passes},{KERNEL_PASSES}")
    (kernel,) = module.ops
    assert isinstance(kernel, KernelOp)
    return kernel


LAUNCH_PASSES = (
    f"{SCHEDULE_PASSES},lower-intrinsics,"
    f"{LOOP_PASSES.replace('unroll-loops', 'unroll-loops,hoist-workspace,split-launches')},"
    f"{KERNEL_PASSES}"
).replace("lower-blocks", "lower-blocks,distribute-warp")


def kernels_of(function: loop.FuncOp, target: GpuTargetAttr) -> list[KernelOp]:
    """Return the launches of a function scheduled by the target's rules, in order."""
    types = list(function.body.block.arg_types)
    body = Block(arg_types=types)
    body.add_ops([loop.CallOp(function.sym_name.data, list(body.args)), ReturnOp()])
    main = KernelOp("main", (types, []), Region(body))
    module = ModuleOp([function, main], {TARGET_ATTRIBUTE: target})
    run_passes(module, LAUNCH_PASSES)
    return [op for op in module.ops if isinstance(op, KernelOp) and KERNEL in op.attributes]


def run_launches(kernels: list[KernelOp], arrays: dict[str, NDArray]) -> None:
    """Run launches in order, checking for races; values passed between them are matched by argument
    name."""
    for kernel in kernels:
        for argument in kernel.body.block.args:
            name, type_ = argument.name_hint or "", argument.type
            fresh = np.full(type_.get_shape(), np.nan, np.float32)  # pyright: ignore
            arrays.setdefault(name, fresh)
        run_kernel(kernel, [arrays[a.name_hint or ""] for a in kernel.body.block.args])


def run_on_threads(kernel: KernelOp, *inputs: NDArray, shape: tuple[int, ...]) -> NDArray:
    """Run a kernel with one result; raise RaceError if threads race."""
    result = np.full(shape, np.nan, np.float32)
    run_kernel(kernel, [*inputs, result])
    return result


def without_barrier(kernel: KernelOp, number: int) -> KernelOp:
    """Copy a kernel without one of its barriers."""
    copy = kernel.clone()
    barrier = [op for op in copy.walk() if op.name == "gpu.barrier"][number]
    barrier.detach()
    barrier.erase()
    return copy


def barriers_of(kernel: KernelOp) -> int:
    """Return the number of barriers of a kernel."""
    return sum(op.name == "gpu.barrier" for op in kernel.walk())


def scheduled(function: loop.FuncOp, steps: Callable[[Schedule], None]) -> loop.FuncOp:
    """Apply schedule steps to a function."""
    sch = Schedule(function)
    steps(sch)
    return sch.func
