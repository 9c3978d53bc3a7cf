"""Limits of a device, measured: copies, multiply-adds, launches, and products of vendor libraries.

Our kernels are written as text, one for each kind of target, so that they measure the device and
not the compiler: chains of independent multiply-adds in registers, and nothing at all. Each chain
starts with another number, since compilers compute equal chains once.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median
from typing import Any

from gpus.measuring import Settings, describe, timing
from gpus.peers import Peers
from gpus.rows import Rows
from tcopt.backends.opencl.emit.names import kernel_name
from tcopt.backends.ptx.names import entry_name
from tcopt.runtime.device.interface import Device, KernelSource
from tcopt.runtime.device.steps import BufferOffset, Copy, Launch

GROUP = "roofs"
CHAINS = 16
"""Independent sums of a thread: more than the latency of a multiply-add."""
WRITTEN = 4
"""Multiply-adds of each chain in a round of the loop."""
THREADS = 256
BLOCKS_A_CORE = 8
LAUNCHES = 100
COPIED = 1 << 28
PRODUCT = 8192

_FMA, _EMPTY = "roof_fma", "roof_empty"


def _ptx_float(number: float) -> str:
    """A number as PTX writes it."""
    return f"0f{struct.unpack('<I', struct.pack('<f', number))[0]:08X}"


def ptx(rounds: int) -> str:
    """Both kernels in PTX."""
    registers = [f"%f{n}" for n in range(CHAINS)]
    body = "\n".join(f"\tfma.rn.f32 {r}, {r}, %f{CHAINS}, %f{CHAINS + 1};" for r in registers)
    starts = "\n".join(
        f"\tadd.rn.f32 {r}, %f{CHAINS}, {_ptx_float(n)};" for n, r in enumerate(registers)
    )
    sums = "\n".join(f"\tadd.rn.f32 %f0, %f0, {r};" for r in registers[1:])
    return f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry {entry_name(_FMA)}(.param .u64 out)
{{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .f32 %f<{CHAINS + 2}>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd0, [out];
	mov.u32 %r0, %ctaid.x;
	mov.u32 %r1, %tid.x;
	mad.lo.s32 %r2, %r0, {THREADS}, %r1;
	mul.wide.s32 %rd1, %r2, 4;
	add.s64 %rd2, %rd0, %rd1;
	ld.global.f32 %f{CHAINS}, [%rd2];
	ld.global.f32 %f{CHAINS + 1}, [%rd0];
{starts}
	mov.u32 %r3, 0;
$ROUND:
{chr(10).join([body] * WRITTEN)}
	add.s32 %r3, %r3, 1;
	setp.lt.s32 %p0, %r3, {rounds};
	@%p0 bra $ROUND;
{sums}
	st.global.f32 [%rd2], %f0;
	ret;
}}
.visible .entry {entry_name(_EMPTY)}(.param .u64 out)
{{
	ret;
}}
"""


def opencl(rounds: int) -> str:
    """Both kernels in OpenCL C."""
    names = [f"a{n}" for n in range(CHAINS)]
    body = " ".join(f"{n} = fma({n}, x, y);" for n in names) * WRITTEN
    starts = ", ".join(f"{name} = x + {n}.0f" for n, name in enumerate(names))
    return f"""
kernel void {kernel_name(_FMA)}(global float* out) {{
  global float* own = out + get_group_id(0) * {THREADS} + get_local_id(0);
  float x = *own, y = *out, {starts};
  for (int i = 0; i < {rounds}; ++i) {{ {body} }}
  *own = {" + ".join(names)};
}}
kernel void {kernel_name(_EMPTY)}(global float* out) {{}}
"""


def measure_roofs(
    device: Device, target: Any, rows: Rows, peers: Peers, how: Settings, *, small: bool = False
) -> None:
    """Measure what the rows do not have.

    Args:
        target: the facts of the device, of which `cores` counts.
        small: tiny sizes, for trying it out.
    """
    ours = _ours(device, target, how, small=small)
    theirs = _theirs(peers.torch, how) if peers.torch is not None else ()
    for name, measure in (*ours, *theirs):
        key = f"{GROUP}/{name}"
        if key in rows or how.left <= 0:
            continue
        how.note(key)
        try:
            values = measure()
        except Exception as error:
            values = {"error": describe(error)}
        row = rows.add(key, {"group": GROUP, "case": name, **values})
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else str(v) for k, v in row.items()))
        how.note("")


Measured = tuple[str, Callable[[], Mapping[str, Any]]]


def _ours(device: Device, target: Any, how: Settings, *, small: bool) -> Iterator[Measured]:
    rounds, blocks = (2, 2) if small else (512, target.cores.data * BLOCKS_A_CORE)
    size = 4096 if small else COPIED
    text = ptx(rounds) if target.kind == "cuda" else opencl(rounds)
    grid, block = (blocks, 1, 1), (THREADS, 1, 1)

    def launched(kernel: str, count: int) -> Any:
        kernels = device.load([KernelSource(text, (_FMA, _EMPTY))])
        buffer = device.allocate(4 * blocks * THREADS)
        launch = Launch(kernel, grid, block, (BufferOffset(0),))
        return device.prepare(kernels, [launch] * count, [buffer]), buffer, kernels

    def copy() -> Mapping[str, Any]:
        buffers = [device.allocate(size) for _ in range(2)]
        steps = device.prepare(
            device.load([]), [Copy(BufferOffset(0), BufferOffset(1), size)], buffers
        )
        found = timing(steps.seconds, how)
        return {**found, "gbps": 2 * size / found["us"] / 1e3}

    def fma() -> Mapping[str, Any]:
        steps, *_kept = launched(_FMA, 1)
        found = timing(steps.seconds, how)
        work = 2 * CHAINS * WRITTEN * rounds * blocks * THREADS
        return {**found, "tflops": work / found["us"] / 1e6}

    def launches() -> Mapping[str, Any]:
        count = 4 if small else LAUNCHES
        steps, *_kept = launched(_EMPTY, count)
        found = timing(lambda runs: steps.seconds(runs) / count, how)
        return {**found, "launches": count}

    def answer() -> Mapping[str, Any]:
        steps, *_kept = launched(_EMPTY, 1)
        times: list[float] = []
        for _ in range(4 if small else LAUNCHES):
            start = time.perf_counter()
            steps.start()
            device.wait()
            times.append((time.perf_counter() - start) * 1e6)
        return {"us": median(times)}

    yield "copy", copy
    yield "fma f32", fma
    yield "launch in a graph", launches
    yield "start and wait", answer


def _theirs(torch: Any, how: Settings) -> Iterator[Measured]:
    """Products of cuBLAS."""
    kinds = {
        "f32": (torch.float32, False),
        "tf32": (torch.float32, True),
        "f16": (torch.float16, False),
        "bf16": (torch.bfloat16, False),
        "int8": (torch.int8, False),
    }

    def product(dtype: Any, tf32: bool) -> Mapping[str, Any]:
        size = PRODUCT
        shape = (size, size)
        if dtype is torch.int8:
            x, y = (torch.randint(-8, 8, shape, dtype=dtype, device="cuda") for _ in range(2))
            # cuBLAS has fast products of bytes only if the second matrix is in columns.
            run = partial(torch._int_mm, x, y.t())
        else:
            x, y = (torch.randn(shape, device="cuda").to(dtype) for _ in range(2))
            run = partial(torch.matmul, x, y)
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        try:
            run()

            def seconds(runs: int) -> float:
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(runs):
                    run()
                end.record()
                end.synchronize()
                return begin.elapsed_time(end) * 1e-3 / runs

            found = timing(seconds, how)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
        return {**found, "tflops": 2 * size**3 / found["us"] / 1e6}

    for name, (dtype, tf32) in kinds.items():
        yield f"cublas {name}", partial(product, dtype, tf32)
