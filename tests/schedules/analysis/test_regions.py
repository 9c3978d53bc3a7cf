"""Regions that ops of the loop dialect access."""

from __future__ import annotations

from xdsl.parser import Parser

from tcopt.dialects.loop import BlockOp, ForOp, FuncOp
from tcopt.dialects.loop.analysis import access_regions
from tcopt.support.pipelines.running import new_context

TEXT = """
loop.func @f(%x: memref<1001xf32>, %t: memref<40x24xf32>,
             %i: memref<4xindex>, %y: memref<1000xf32>) {
  loop.for %jo = 0 to 63 {
    loop.for %ji = 0 to 16 {
      loop.block "b" (%vj: spatial 1000 = %jo * 16 + %ji) {
        %l = loop.load %x[%vj + 1] : memref<1001xf32>
        %m = loop.load %x[%vj] : memref<1001xf32>
        %p = loop.load %i[%vj mod 4] : memref<4xindex>
        %n = loop.load %t[%vj floordiv 32, %p] : memref<40x24xf32>
        loop.store %l, %y[%vj] : memref<1000xf32>
      }
    }
  }
}
"""


def regions(root: FuncOp | ForOp | BlockOp) -> dict[tuple[str | None, bool], list[tuple[str, int]]]:
    """Return regions as `{(buffer, is written): [(base, extent)]}`."""
    return {
        (r.buffer.name_hint, r.is_write): [(str(d.base), d.extent) for d in r.box.dims]
        for r in access_regions(root)
    }


def test_regions_depend_on_the_loops_that_run() -> None:
    """Loops below the op extend the region; loops around it move it."""
    function = Parser(new_context(), TEXT).parse_op()
    assert isinstance(function, FuncOp)
    outer = function.body.block.first_op
    assert isinstance(outer, ForOp)
    inner = outer.body.block.first_op
    assert isinstance(inner, ForOp)
    # A tile reads its own elements and one more.
    tile = regions(inner)
    assert tile["x", False] == [("(d0 * 16)", 17)]
    assert tile["y", True] == [("(d0 * 16)", 16)]
    # 16 elements of an aligned tile are in one row of 32; a computed index may be anything.
    assert tile["t", False] == [("(d0 floordiv 2)", 1), ("0", 24)]
    # The domain limits loops that run past it.
    assert regions(outer)["x", False] == [("0", 1001)]
    assert regions(outer)["y", True] == [("0", 1000)]
    block = inner.body.block.first_op
    assert isinstance(block, BlockOp)
    assert regions(block)["x", False] == [("((d0 * 16) + d1)", 2)]
