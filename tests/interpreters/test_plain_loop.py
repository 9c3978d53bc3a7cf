"""The plain lowering of the loop dialect agrees with the scalar interpreter, as machine code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tcopt.dialects import loop
from tcopt.interpreters.loop import run_func
from tcopt.support.errors import TcoptError, UnsupportedError
from tcopt.support.syntax.parsing import LocatedParser
from tcopt.tools.command_line.inputs import InputSpec, random_value
from tcopt.tools.execution.executors import signature
from tcopt.tools.execution.native_process import NativeFault
from tcopt.tools.execution.stage_runs import run_plain
from tcopt.tools.passes.driver import new_context

LIT = Path(__file__).resolve().parents[2] / "lit_tests"
SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)


def parse(text: str) -> ModuleOp:
    return LocatedParser(new_context(), text, "test").parse_module()


def function_of(text: str) -> loop.FuncOp:
    return next(op for op in parse(text).ops if isinstance(op, loop.FuncOp))


def arguments(function: loop.FuncOp) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    specs = signature(function).arguments
    return [random_value(InputSpec("", spec.shape, spec.dtype), rng) for spec in specs]


def run(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return all arguments after a run."""
    function = function_of(text)
    given = list(arrays) or arguments(function)
    call = run_plain(function, given, range(len(given)))
    return [output.array for output in call.outputs]


def lit_functions() -> list[tuple[str, str]]:
    """Yield every loop function of the passes' lit files, by file and number."""
    found: list[tuple[str, str]] = []
    for file in sorted((LIT / "passes" / "loop").rglob("*.mlir")):
        for number, part in enumerate(SEPARATOR.split(file.read_text())):
            if "loop.func" in part:
                found.append((f"{file.stem}-{number}", part))
    return found


@pytest.mark.nightly
def test_gives_what_the_interpreter_gives() -> None:
    """For every function of the passes' lit files that both can run."""
    compared = 0
    for name, text in lit_functions():
        try:
            module = parse(text)
        except Exception:
            continue
        for function in module.ops:
            if not isinstance(function, loop.FuncOp):
                continue
            expected = arguments(function)
            given = [array.copy() for array in expected]
            try:
                run_func(function, expected)
                call = run_plain(function, given, range(len(given)))
            except (TcoptError, KeyError, NotImplementedError):
                continue
            for output, array in zip(call.outputs, expected, strict=True):
                np.testing.assert_allclose(
                    output.array.astype(np.float64),
                    array.astype(np.float64),
                    rtol=1e-4,
                    atol=1e-5,
                    err_msg=name,
                )
            compared += 1
    assert compared > 60


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
    call = run_plain(function_of(text), [x, np.zeros(8, np.float32)], [1])
    (stage,) = call.stages
    assert stage.name == "b"
    assert stage.mask is not None
    assert stage.mask.tolist() == [True] * 6 + [False] * 2
    np.testing.assert_array_equal(stage.array[:6], 2 * x[:6])


def test_an_index_outside_is_a_fault() -> None:
    """The error names the block, the buffer and the index."""
    with pytest.raises(NativeFault, match=r'@f: block "b": an index of %x is outside .* index 8'):
        run(BLOCK.format(trip=8, kind="", read=" + 1", write=""))


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
