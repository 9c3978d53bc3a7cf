"""Memory scopes of plugins work like built-in ones in steps, passes and interpreters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from machines.plugin_files import folder, plugin
from programs.gpu_programs import kernel_of, run_on_threads, without_barrier
from tcopt.backends.llvm.jit import compile_module
from tcopt.interpreters.kernel_memory import RaceError
from tcopt.support.errors import InputError
from tcopt.support.pipelines.running import new_context
from tcopt.support.registries.plugins import (
    load_plugins,
)
from tcopt.support.syntax.parsing import TextParser
from tcopt.tools import tcopt as driver

__all__ = ["folder"]

SCOPE = """
from tcopt.dialects.loop.scopes import Scope, Sharing, register_scope

TILE = register_scope(Scope("tile", Sharing.{sharing}, space={space}, capacity={capacity}))
"""

SCHEDULED = """
loop.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
  %t = loop.alloc global : memref<64xf32>
  loop.for %i = 0 to 64 {
    loop.block "t" (%v: spatial 64 = %i) {
      %0 = loop.load %x[%v] : memref<64xf32>
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %t[%v] : memref<64xf32>
    }
  }
  loop.for %i = 0 to 64 {
    loop.block "y" (%v: spatial 64 = %i) {
      %0 = loop.load %t[%v] : memref<64xf32>
      %1 = loop.load %x[-%v + 63] : memref<64xf32>
      %2 = arith.mulf %0, %1 : f32
      loop.store %2, %y[%v] : memref<64xf32>
    }
  }
}
sched.sequence @s for @f {
  %t = sched.get_block "t"
  sched.set_scope %t to tile
  %y = sched.get_block "y"
  %c = sched.cache_read %y of "x" into tile
}
"""
LOWERED = "lower-blocks,compact-buffers,lower-loop-to-kernel,promote-registers,dce"


def scope(sharing: str = "THREAD", space: object = 7, capacity: object = 4096) -> Path:
    return plugin(SCOPE.format(sharing=sharing, space=space, capacity=capacity), "scope")


def test_a_memory_scope_is_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """Steps, passes and the interpreters of both levels accept the scope; code uses its address
    space."""
    Path("in.mlir").write_text(SCHEDULED)
    assert driver.main(["in.mlir", "-p", "apply-schedule"]) == 1
    assert "'tile' is not one of the memory scopes global, shared" in capsys.readouterr().err
    loaded = ["--load", str(scope())]
    assert driver.main([*loaded, "in.mlir", "-p", "apply-schedule", "--verify-each=exec"]) == 0
    text = capsys.readouterr().out
    assert text.count("loop.alloc tile") == 2 and 'loop.block "x_tile"' in text
    Path("loops.mlir").write_text(text)
    for form in ([], ["--print-op-generic"]):
        assert driver.main([*loaded, "loops.mlir", *form]) == 0
        Path("loops.mlir").write_text(capsys.readouterr().out)
    lowering = ["-p", LOWERED, "--verify-each=exec", "-o", "kernel.mlir"]
    assert driver.main([*loaded, "loops.mlir", *lowering]) == 0
    kernel = Path("kernel.mlir").read_text()
    assert kernel.count("memref<64xf32, 7 : i64>") >= 2 and "memref.alloca" in kernel
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    compile_module(TextParser(new_context(), kernel).parse_module()).function("f")(x, y)
    np.testing.assert_array_equal(y, 2 * x * x[::-1])


def test_a_memory_scope_has_a_capacity(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.mlir").write_text(SCHEDULED)
    passes = ["in.mlir", "-p", "apply-schedule,lower-blocks,lower-loop-to-kernel"]
    assert driver.main(["--load", str(scope(capacity=512)), *passes]) == 0
    assert driver.main(["--load", str(scope(capacity=511)), *passes]) == 1
    told = capsys.readouterr().err
    assert "buffers of scope tile need 512 bytes at a time, but its capacity is 511" in told


def test_threads_of_a_block_share_what_a_scope_says() -> None:
    """Each thread reads what another one wrote, so a barrier is required and present."""
    load_plugins([scope("BLOCK")])
    module = TextParser(
        new_context(),
        """
loop.func @exchange(%x: memref<64xf32>, %y: memref<64xf32>) {
  %s = loop.alloc tile : memref<64xf32>
  loop.for %t = 0 to 64 thread threadIdx.x {
    %a = loop.load %x[%t] : memref<64xf32>
    loop.store %a, %s[%t] : memref<64xf32>
    %b = loop.load %s[63 - %t] : memref<64xf32>
    loop.store %b, %y[%t] : memref<64xf32>
  }
}""",
    ).parse_module()
    (function,) = module.ops
    function.detach()
    kernel = kernel_of(function, passes="insert-barriers,lower-loop-to-kernel")  # pyright: ignore
    assert "memref<64xf32, 7 : i64>" in str(kernel)
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(run_on_threads(kernel, x, shape=(64,)), x[::-1])
    with pytest.raises(RaceError):
        run_on_threads(without_barrier(kernel, 0), x, shape=(64,))


def test_memory_scopes_that_cannot_be() -> None:
    for name, space, message in (("a b", 7, "cannot be called 'a b'"), ("tile", 3, "'shared'")):
        text = SCOPE.format(sharing="ALL", space=space, capacity=None).replace("tile", name)
        with pytest.raises(InputError, match=message):
            load_plugins([plugin(text, "scope")])
