"""The plain translation of the loop dialect follows the dialect's definition."""

# ruff: noqa: E501 (lines of IR)
from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

from programs.loop_programs import (
    FUSED_INDEX,
    MATMUL,
    PADDED_CONV,
    SOFTMAX,
    context,
    function_of,
    parse,
    random_arguments,
    results,
)
from tcopt.interpreters.plain_loop import translate
from tcopt.support.errors import InputError, UnsupportedError
from tcopt.tools.execution.loop_executor import PlainCode, run_func, run_module
from tcopt.tools.execution.native_process import CANARY, NativeFault
from tcopt.tools.execution.stage_runs import run_plain


def run(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return all arguments after a run."""
    function = function_of(parse(text))
    return run_func(function, list(arrays) or random_arguments(function))


def test_matmul_with_tails_and_init() -> None:
    x, w, y = results(parse(MATMUL))
    np.testing.assert_allclose(y, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-5)


def test_padded_convolution_reads_the_default_outside() -> None:
    x, w, y = results(parse(PADDED_CONV))
    padded = np.full((3, 12, 13), 0.5, np.float32)
    padded[:, 1:-1, 1:-1] = 2 * x
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    np.testing.assert_allclose(y, np.einsum("chwij,ocij->ohw", windows, w), rtol=1e-5, atol=1e-4)


def test_softmax() -> None:
    x, y = results(parse(SOFTMAX))
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_integers_are_exact_and_guards_skip_the_tail() -> None:
    _, n, _, p = results(parse(FUSED_INDEX))
    np.testing.assert_array_equal(p.reshape(6, 10), n + np.arange(10))


def test_parallel_iterations_in_random_order() -> None:
    module = parse(MATMUL)
    for expected, actual in zip(results(module), results(module, order=3), strict=True):
        np.testing.assert_array_equal(expected, actual)


@pytest.mark.parametrize("kind", ["", "parallel"])
@pytest.mark.parametrize("limit", [-2, 0, 1, 5, 8, 11])
def test_iterations_from_a_limit_on_do_not_run(kind: str, limit: int) -> None:
    text = f"""
      loop.func @f(%y: memref<8xf32>) {{
        %a = arith.constant 1.0 : f32
        %k = loop.index [{limit}]
        loop.for %i = 0 to 8 limit %k {kind} {{
          loop.store %a, %y[%i] : memref<8xf32>
        }}
      }}"""
    (y,) = run(text, np.zeros(8, np.float32))
    np.testing.assert_array_equal(y, np.arange(8) < limit)


def test_integers_wrap_to_their_width() -> None:
    module = parse("""
      loop.func @f(%x: memref<3xi8>) {
        loop.for %i = 0 to 3 {
          %a = loop.load %x[%i] : memref<3xi8>
          %b = arith.muli %a, %a : i8
          loop.store %b, %x[%i] : memref<3xi8>
        }
      }""")
    x = np.array([100, -128, 7], np.int8)
    run_func(function_of(module), [x])
    np.testing.assert_array_equal(x, np.array([16, 0, 49], np.int8))


def test_arguments_are_checked() -> None:
    function = function_of(parse(MATMUL))
    arrays = random_arguments(function)
    with pytest.raises(InputError, match="2 arrays for 3 arguments"):
        run_func(function, arrays[:2])
    with pytest.raises(InputError, match="shape"):
        run_func(function, [arrays[1], arrays[0], arrays[2]])


def test_unknown_ops_are_reported() -> None:
    module = parse("""
      loop.func @f(%x: memref<4xf32>) {
        loop.push_token "load" -> "compute"
      }""")
    with pytest.raises(UnsupportedError, match=r"loop\.push_token"):
        results(module)


def test_deep_nests_run() -> None:
    loops = "".join(f"loop.for %i{n} = 0 to 1 {{" for n in range(40))
    module = parse(f"""
      loop.func @f(%x: memref<1xf32>) {{
        {loops}
          %a = arith.constant 2.0 : f32
          loop.store %a, %x[%i0 + %i39] : memref<1xf32>
        {"}" * 40}
      }}""")
    x = np.zeros(1, np.float32)
    run_func(function_of(module), [x])
    assert x[0] == 2.0


HOST = """
builtin.module attributes {graph.outputs = ["y", "z"]} {
  loop.func @add(%a: memref<6xf32>, %b: memref<6xf32>) {
    loop.for %i = 0 to 6 {
      %x = loop.load %a[%i] : memref<6xf32>
      %one = arith.constant 1.0 : f32
      %y = arith.addf %x, %one : f32
      loop.store %y, %b[%i] : memref<6xf32>
    }
  }
  func.func @main(%x: memref<2x3xf32>, %y: memref<6xf32>, %z: memref<6xf32>) {
    %flat = memref.reinterpret_cast %x to offset: [0], sizes: [6], strides: [1] : memref<2x3xf32> to memref<6xf32>
    %t = memref.alloc() : memref<6xf32>
    loop.call @add(%flat, %t) : memref<6xf32>, memref<6xf32>
    loop.call @add(%t, %y) : memref<6xf32>, memref<6xf32>
    "memref.copy"(%t, %z) : (memref<6xf32>, memref<6xf32>) -> ()
    func.return
  }
}
"""


def test_host_program() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, z = run_module(parse(HOST), [x])
    np.testing.assert_array_equal(y, x.ravel() + 2)
    np.testing.assert_array_equal(z, x.ravel() + 1)


def test_outputs_given_are_written() -> None:
    x, y, z = (np.ones(shape, np.float32) for shape in ((2, 3), 6, 6))
    run_module(parse(HOST), [x, y, z])
    np.testing.assert_array_equal(y, np.full(6, 3, np.float32))


BLOCK = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {{
  loop.for %i = 0 to {trip} {kind} {{
    loop.block "b" (%v: spatial 8 = %i) {{
      %0 = loop.load %x[%v{read}] : memref<8xf32>
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %y[%v{write}] : memref<8xf32>
    }}
  }}
}}"""


def test_keeps_what_blocks_store() -> None:
    """Stored values are indexed by the block's own variables; points that were not reached are
    omitted."""
    text = BLOCK.format(trip=6, kind="", read="", write="")
    x = np.arange(8, dtype=np.float32)
    function, y = function_of(parse(text)), np.zeros(8, np.float32)
    code = PlainCode(translate(function))
    (stage,) = code([x, y])
    assert code.plain.stages[0].name == "b"
    np.testing.assert_array_equal(stage[:6], 2 * x[:6])
    assert (stage[6:].view(np.uint8) == CANARY).all()
    call = run_plain(function, [x, y], [1])
    assert call.stages[0].mask is not None
    assert call.stages[0].mask.tolist() == [True] * 6 + [False] * 2


def test_an_index_outside_is_a_fault() -> None:
    """The error names the block, the buffer and the index."""
    text = BLOCK.format(trip=8, kind="", read=" + 1", write="")
    # The verifier would reject it.
    function = function_of(Parser(context(), text).parse_module())
    with pytest.raises(NativeFault, match=r'@f: block "b": an index of %x is outside .* index 8'):
        run_plain(function, random_arguments(function), [1])


def test_a_parallel_loop_without_a_race_is_none() -> None:
    x, y = run(BLOCK.format(trip=8, kind="parallel", read="", write=""))
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("write", [" floordiv 2", " * 0"])
def test_two_iterations_that_write_one_element_race(write: str) -> None:
    """The iterations write different values, and the last one wins by chance."""
    with pytest.raises(NativeFault, match="two iterations of a parallel loop race: both write"):
        run(BLOCK.format(trip=8, kind="parallel", read="", write=write))


def test_an_iteration_that_reads_what_another_writes_races() -> None:
    text = """loop.func @f(%y: memref<9xf32>) {
      loop.for %i = 0 to 8 parallel {
        %0 = loop.load %y[%i] : memref<9xf32>
        loop.store %0, %y[%i + 1] : memref<9xf32>
      }
    }"""
    with pytest.raises(NativeFault, match="one reads the element of %y that the other writes"):
        run(text)


def test_a_buffer_that_parallel_iterations_share_races() -> None:
    """Each iteration fills the buffer and reads it back immediately."""
    text = """loop.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
      %t = loop.alloc global : memref<1xf32>
      loop.for %i = 0 to 8 parallel {
        %0 = loop.load %x[%i] : memref<8xf32>
        loop.store %0, %t[0] : memref<1xf32>
        %1 = loop.load %t[0] : memref<1xf32>
        loop.store %1, %y[%i] : memref<8xf32>
      }
    }"""
    with pytest.raises(NativeFault, match="race"):
        run(text)


def test_what_was_not_written_shows() -> None:
    """New buffers contain NaN."""
    text = """loop.func @f(%y: memref<2xf32>) {
      %t = loop.alloc global : memref<2xf32>
      %0 = loop.load %t[1] : memref<2xf32>
      loop.store %0, %y[0] : memref<2xf32>
    }"""
    (y,) = run(text, np.zeros(2, np.float32))
    assert np.isnan(y[0]) and y[1] == 0


def test_borders_run() -> None:
    """Elements outside the box are written, and no others."""
    text = """loop.func @f(%y: memref<4x5xf32>) {
      loop.border %y outside [1 to 3, 1 to 4] = 2.0 : memref<4x5xf32>
    }"""
    (y,) = run(text, np.zeros((4, 5), np.float32))
    expected = np.full((4, 5), 2.0, np.float32)
    expected[1:3, 1:4] = 0
    np.testing.assert_array_equal(y, expected)


def test_threads_that_wait_are_refused() -> None:
    text = """loop.func @f(%y: memref<4xf32>) {
      loop.for %i = 0 to 4 thread threadIdx.x {
        loop.barrier
      }
    }"""
    with pytest.raises(UnsupportedError, match="does not support barriers"):
        run(text, np.zeros(4, np.float32))


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_buffer_is_new_in_every_iteration(lanes: int) -> None:
    """No iteration reads what an earlier one wrote, even if few elements are written."""
    lanes_text = " lanes [1]" if lanes > 1 else ""
    vector = f", vector<{lanes}xf32>" if lanes > 1 else ""
    (_, y) = run(f"""loop.func @f(%x: memref<64xf32>, %y: memref<16xf32>) {{
  loop.for %i = 0 to 16 {{
    %t = loop.alloc local : memref<256xf32>
    %0 = loop.load %x[%i * {lanes}]{lanes_text} : memref<64xf32>{vector}
    loop.store %0, %t[%i * {lanes} + 100]{lanes_text} : memref<256xf32>{vector}
    %1 = loop.load %t[{99 + lanes}] : memref<256xf32>
    loop.store %1, %y[%i] : memref<16xf32>
  }}
}}""")
    assert not np.isnan(y[0])
    assert np.isnan(y[1:]).all()
