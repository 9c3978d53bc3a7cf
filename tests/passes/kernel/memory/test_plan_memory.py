"""The memory plan: no overlaps, close to the lower bound, correct results."""

# ruff: noqa: E501 (lines of IR)
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.func import FuncOp

from programs.loop_programs import apply, parse
from tcopt.passes.kernel.memory.memory_layout import Request, aligned, live_bytes, place

_REQUESTS = st.lists(
    st.builds(
        lambda size, start, length: Request(aligned(size), start, start + length),
        st.integers(1, 5000),
        st.integers(0, 30),
        st.integers(0, 8),
    ),
    max_size=25,
)


@given(_REQUESTS)
def test_buffers_alive_together_never_overlap(requests: list[Request]) -> None:
    total, offsets = place(requests)
    for i, first in enumerate(requests):
        assert offsets[i] % 64 == 0 and offsets[i] + first.size <= total
        for j in range(i):
            second = requests[j]
            if first.meets(second):
                apart = offsets[i] + first.size <= offsets[j]
                assert apart or offsets[j] + second.size <= offsets[i]


@given(_REQUESTS)
def test_the_plan_is_near_the_lower_bound(requests: list[Request]) -> None:
    total, _ = place(requests)
    bound = live_bytes(requests)
    assert bound <= total <= 1.5 * bound


def test_a_chain_needs_two_buffers() -> None:
    requests = [Request(64, i, i + 1) for i in range(10)]
    assert place(requests)[0] == 128


def test_views_keep_a_buffer_alive() -> None:
    module = parse("""
      func.func private @k(%a: memref<16xf32>, %b: memref<16xf32>)
      func.func @main(%x: memref<16xf32>, %y: memref<16xf32>) {
        %t = memref.alloc() : memref<16xf32>
        func.call @k(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
        %v = memref.reinterpret_cast %t to offset: [0], sizes: [16], strides: [1] : memref<16xf32> to memref<16xf32>
        %u = memref.alloc() : memref<16xf32>
        func.call @k(%x, %u) : (memref<16xf32>, memref<16xf32>) -> ()
        func.call @k(%v, %y) : (memref<16xf32>, memref<16xf32>) -> ()
        func.call @k(%u, %y) : (memref<16xf32>, memref<16xf32>) -> ()
        func.return
      }""")
    apply(module, "plan-memory")
    main = next(op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks)
    assert "workspace = 128" in str(main.attributes["tcopt.memory"])
