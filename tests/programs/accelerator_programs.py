"""Convolutions that are lowered to accelerator programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tcopt.compiler import Phase, lower
from tcopt.dialects.accelerator import ProgramOp
from tcopt.dialects.loop import FuncOp
from tcopt.dialects.sched import SequenceOp
from tcopt.dialects.target import TARGET_ATTRIBUTE, VdlaTargetAttr
from tcopt.support.pipelines.running import new_context
from tcopt.support.syntax.parsing import LocatedParser

Array = NDArray[np.generic]

TO_LOOP = (
    "fuse-ops,lower-graph-to-te,te-inline,split-axes,merge-axes,split-operations,lower-te-to-loop"
)
TO_PLACES = "apply-schedule,compact-buffers,lower-blocks,inject-virtual-threads,place-sram"


CLIP = ["%a = graph.add %0, %b : I", "%s = graph.shift_right %a, %n8 : I", "%c = graph.relu %s : I"]
"""Epilogue of bias, scale and clamp."""

HALF_TO_EVEN = [
    "%h = graph.add %0, %b : I",
    "%l = graph.shift_left %h, %n23 : I",
    "%o = graph.shift_right %l, %n31 : I",
    "%a = graph.add %h, %o : I",
    "%c = graph.shift_right %a, %n8 : I",
]
"""Sums over 256, rounded to nearest even: a one is subtracted where a tie would round up to an odd
number."""

RESIDUAL = [
    *CLIP[:2],
    "%r = graph.cast %y : I",
    "%d = graph.shift_left %r, %n1 : I",
    "%c = graph.add %d, %s : I",
]
"""Epilogue that adds twice the bytes of another tensor."""

BYTES = ["%m = graph.min %c, %n127 : I", "%q = graph.cast %m : T"]


@dataclass(frozen=True)
class Conv:
    """An 8-bit convolution over channel blocks.

    Attributes:
        height, width: extents of the data.
        inputs, outputs: numbers of channel blocks.
        kernel, stride, pad: the same along both dimensions.
        images: number of images.
        block: channels of a block.
    """

    height: int
    width: int
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    pad: int = 0
    images: int = 1
    block: int = 16

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of data, weights and results."""
        rows, columns = (
            (n + 2 * self.pad - self.kernel) // self.stride + 1 for n in (self.height, self.width)
        )
        taps = (self.kernel, self.kernel)
        return (
            (self.images, self.inputs, self.height, self.width, self.block),
            (self.outputs, self.inputs, *taps, 1, self.block, self.block),
            (self.images, self.outputs, rows, columns, self.block),
        )

    def module(self, target: VdlaTargetAttr) -> ModuleOp:
        """Return the convolution as a graph for a machine."""
        x, w, y = ("x".join(map(str, shape)) for shape in self.shapes)
        text = f"""
            func.func @main(%x: tensor<{x}xi8>, %w: tensor<{w}xi8>) -> tensor<{y}xi32> {{
              %0 = graph.blocked_conv %x, %w {{
                strides = [{self.stride}, {self.stride}], result_element = i32,
                pads = [{self.pad}, {self.pad}, {self.pad}, {self.pad}]}} : tensor<{y}xi32>
              func.return %0 : tensor<{y}xi32>
            }}"""
        module = LocatedParser(new_context(), text, "conv.mlir").parse_module()
        module.attributes[TARGET_ATTRIBUTE] = target
        return module

    def arrays(self, rng: np.random.Generator) -> list[Array]:
        """Return random data and weights, and results filled with a sentinel."""
        x, w, y = self.shapes
        numbers = [rng.integers(-128, 128, shape, np.int8) for shape in (x, w)]
        return [*numbers, np.full(y, 77, np.int32)]

    def expected(self, x: Array, w: Array) -> Array:
        """Compute the results in numpy."""
        around = (self.pad, self.pad)
        data = np.pad(x.astype(np.int64), ((0, 0), (0, 0), around, around, (0, 0)))
        _, _, rows, columns, _ = self.shapes[2]
        total = np.zeros(self.shapes[2], np.int64)
        for dy in range(self.kernel):
            for dx in range(self.kernel):
                seen = data[
                    :,
                    :,
                    dy : dy + (rows - 1) * self.stride + 1 : self.stride,
                    dx : dx + (columns - 1) * self.stride + 1 : self.stride,
                ]
                taps = w[:, :, dy, dx, 0].astype(np.int64)
                total += np.einsum("nchwi,ocji->nohwj", seen, taps)
        return total.astype(np.int32)


def module_text(conv: Conv, steps: list[str], result: str) -> str:
    """Return the graph of a convolution and its epilogue.

    Args:
        steps: epilogue such as `CLIP`; names of values end in their type: `T` for bytes, `I` for
            integers.
        result: name of the stored value.
    """
    x, w, y = ("x".join(map(str, shape)) for shape in conv.shapes)
    bias = f"1x{conv.outputs}x1x1x{conv.block}"
    types = {"T": f"tensor<{y}xi8>", "I": f"tensor<{y}xi32>"}
    body = "\n".join(step[:-1] + types[step[-1]] for step in steps)
    numbers = "\n".join(
        f"%n{n} = graph.constant dense<{n}> : tensor<i32>" for n in (1, 8, 23, 31, 127)
    )
    kind = types["T" if result == "%q" else "I"]
    stride, pad = [conv.stride] * 2, [conv.pad] * 4
    return f"""
      func.func @main(%x: tensor<{x}xi8>, %w: tensor<{w}xi8>, %b: tensor<{bias}xi32>,
                      %y: {types["T"]}) -> {kind} {{
        {numbers}
        %g = graph.group kind = complex_out_fusable {{
          %0 = graph.blocked_conv %x, %w {{strides = {stride}, pads = {pad},
            result_element = i32}} : {types["I"]}
          {body}
          graph.yield {result} : {kind}
        }} : {kind}
        func.return %g : {kind}
      }}"""


def program_of(module: ModuleOp) -> ProgramOp:
    """Return the single program that an accelerator graph is lowered to, without tokens."""
    lower(module, [Phase("schedule", f"{TO_LOOP},schedule")])
    assert any(isinstance(op, SequenceOp) for op in module.ops), "no rule took it"
    lower(module, [Phase("places", TO_PLACES)])
    for op in list(module.ops):
        if not isinstance(op, FuncOp):
            op.detach()
    lower(module, [Phase("program", "lower-loop-to-accelerator")])
    (program,) = module.ops
    assert isinstance(program, ProgramOp)
    return program
