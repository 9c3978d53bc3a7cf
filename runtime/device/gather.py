"""Generator of a PTX kernel that copies a strided tensor to contiguous memory."""

from __future__ import annotations

from math import gcd, prod

from tcopt.backends.ptx.names import entry_name
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.steps import BufferOffset, Launch
from tcopt.runtime.foreign import ForeignTensor

BLOCK = 256
"""Threads in a block."""

_WIDEST = 8
"""Bytes of the widest load."""


def gather(tensor: ForeignTensor) -> tuple[KernelSource, Launch]:
    """Return a kernel that copies a tensor, and its launch with arguments (target, tensor)."""
    whole = tensor.dtype.itemsize
    # An element that is wide or misaligned is copied by several loads, an extra innermost axis.
    itemsize = gcd(_WIDEST, whole, tensor.address, *tensor.strides)
    shape, strides = (*tensor.shape, whole // itemsize), (*tensor.strides, itemsize)
    count = prod(shape)
    kernel = f"gather_{itemsize * 8}"
    name = entry_name(kernel)
    lines = [
        "mov.u32 %r1, %ctaid.x;",
        "mov.u32 %r2, %tid.x;",
        f"mul.wide.u32 %rd1, %r1, {BLOCK};",
        "cvt.u64.u32 %rd2, %r2;",
        "add.s64 %rd1, %rd1, %rd2;",
        f"setp.ge.u64 %p1, %rd1, {count};",
        "@%p1 bra DONE;",
        f"ld.param.u64 %rd3, [{name}_param_0];",
        f"ld.param.u64 %rd4, [{name}_param_1];",
        f"mad.lo.s64 %rd3, %rd1, {itemsize}, %rd3;",
    ]
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        # Delinearise the element's number: the index along this axis is the remainder.
        lines += [
            f"rem.u64 %rd5, %rd1, {extent};",
            f"div.u64 %rd1, %rd1, {extent};",
            f"mad.lo.s64 %rd4, %rd5, {stride}, %rd4;",
        ]
    value = "%rd6" if itemsize == _WIDEST else "%r3"
    kind = f"{'b' if itemsize > 1 else 'u'}{itemsize * 8}"
    if itemsize == 2:
        value = "%h1"
    lines += [f"ld.global.{kind} {value}, [%rd4];", f"st.global.{kind} [%rd3], {value};"]
    body = "\n".join(f"\t{line}" for line in lines)
    text = f"""
.version 7.8
.target sm_70
.address_size 64

.visible .entry {name}(
	.param .u64 {name}_param_0,
	.param .u64 {name}_param_1
)
.reqntid {BLOCK}, 1, 1
{{
	.reg .pred %p<2>;
	.reg .b16 %h<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<7>;

{body}
DONE:
	ret;
}}
"""
    blocks = (count + BLOCK - 1) // BLOCK
    launch = Launch(kernel, (blocks, 1, 1), (BLOCK, 1, 1), (BufferOffset(0), BufferOffset(1)))
    return KernelSource(text, (kernel,)), launch
