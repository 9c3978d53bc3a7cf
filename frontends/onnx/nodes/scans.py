"""Scan, as a `graph.scan` over a function for its body."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.dialects.graph.core.types import shape_of
from tcopt.frontends.onnx.model.values import Values
from tcopt.frontends.onnx.nodes.bodies import Bodies
from tcopt.support.arithmetic.sizes import is_fixed


class ScanBodies(Bodies):
    """The body of a Scan."""

    def run(self, operands: Values) -> Values:
        if self.ctx.opset < 9:
            return self._scan_of_batches(operands)
        inputs = self.ctx.get_int("num_scan_inputs")
        count = len(operands) - inputs
        self.ctx.check(inputs >= 1 and count >= 0, f"it has no {inputs} inputs to scan")
        values: list[SSAValue] = []
        for value in operands:
            if not isinstance(value, SSAValue):
                self.ctx.unsupported("Scan over values that are not tensors is not supported")
            values.append(value)
        axes = self._per_item("scan_input_axes", inputs)
        turned = self._per_item("scan_input_directions", inputs)
        rows = [
            self._turned(self._axis_first(value, axis), backwards)
            for value, axis, backwards in zip(values[count:], axes, turned, strict=True)
        ]
        return self._scanned(values[:count], rows, "scan_output_axes", "scan_output_directions")

    def _scanned(
        self,
        states: list[SSAValue],
        rows: list[SSAValue],
        axes_name: str | None,
        directions_name: str | None,
    ) -> list[SSAValue]:
        body = self.body("body", len(states) + len(rows))
        steps, count = shape_of(rows[0])[0], len(states)
        if any(shape_of(row)[0] != steps for row in rows):
            self.ctx.malformed("the scanned inputs have different numbers of slices")
        with self.function(states, rows, body) as function:
            arguments = function.arguments[: count + len(rows)]
            results = self.imported(body, arguments, function.scope, "step")
            outputs: list[SSAValue] = []
            for value in results:
                if not isinstance(value, SSAValue):
                    self.ctx.unsupported("a step of Scan has a result that is not a tensor")
                outputs.append(value)
            for new, old in zip(outputs, states, strict=False):
                if new.type != old.type:
                    self.ctx.unsupported(
                        f"a state of Scan changes from {old.type} to {new.type}, which "
                        "is not supported"
                    )
            step = function.finish(outputs)
        slices = outputs[count:]
        final = self.applied(step, steps, states, rows, function, slices)
        axes = self._per_item(axes_name, len(slices))
        turned = self._per_item(directions_name, len(slices))
        columns = [
            self._axis_back(self._turned(value, backwards), axis)
            for value, axis, backwards in zip(final[count:], axes, turned, strict=True)
        ]
        return [*final[:count], *columns]

    def _scan_of_batches(self, operands: Values) -> Values:
        """Import the first version of Scan: each entry of a batch is scanned separately."""
        inputs = self.ctx.get_int("num_scan_inputs")
        values = [value for value in operands[1:] if isinstance(value, SSAValue)]
        self.ctx.check(len(values) == len(operands) - 1, "an operand is not a tensor")
        turned = self._per_item("directions", inputs)
        count, batch = len(values) - inputs, shape_of(values[0])[0]
        entries: list[list[SSAValue]] = []
        steps = shape_of(values[-1])[1]
        lengths = [steps] * batch
        if operands[0] is not None:
            if not isinstance(operands[0], SSAValue):
                self.ctx.malformed("the lengths are not a tensor")
            lengths = self.ctx.known_ints(operands[0], "the sequence lengths")
            self.ctx.check(
                len(lengths) == batch and all(0 <= n <= steps for n in lengths),
                f"sequence lengths {lengths} do not fit {batch} sequences of {steps} steps",
            )
        for entry, length in enumerate(lengths):
            own = [self._entry(value, entry) for value in values]
            rows = [
                self._turned(self._cut(v, length), b)
                for v, b in zip(own[count:], turned, strict=True)
            ]
            found = self._scanned(own[:count], rows, None, None)
            found[count:] = [self._filled(value, steps) for value in found[count:]]
            entries.append(
                [self.ctx.moved(v, graph.ReshapeOp(v, (1, *shape_of(v)))) for v in found]
            )
        return [self.ctx.moved(c[0], graph.ConcatOp(c, axis=0)) for c in zip(*entries, strict=True)]

    def _entry(self, value: SSAValue, entry: int) -> SSAValue:
        shape = shape_of(value)
        starts = [entry, *[0] * (len(shape) - 1)]
        part = self.ctx.moved(value, graph.SliceOp(value, starts, [1, *shape[1:]]))
        return self.ctx.moved(part, graph.ReshapeOp(part, shape[1:]))

    def _cut(self, value: SSAValue, length: int) -> SSAValue:
        """Return the first slices of a value."""
        shape = shape_of(value)
        if length == shape[0]:
            return value
        return self.ctx.moved(value, graph.SliceOp(value, [0] * len(shape), [length, *shape[1:]]))

    def _filled(self, value: SSAValue, length: int) -> SSAValue:
        """Append slices of zeros to a value."""
        shape = shape_of(value)
        if length == shape[0]:
            return value
        others = [0] * (len(shape) - 1)
        op = graph.PadOp(value, low=[0, *others], high=[length - shape[0], *others])
        return self.ctx.moved(value, op)

    def _per_item(self, name: str | None, count: int) -> list[int]:
        listed = (self.ctx.get_ints(name) if name else None) or [0] * count
        self.ctx.check(len(listed) == count, f"{name} {listed} should have {count} entries")
        return listed

    def _axis_first(self, value: SSAValue, axis: int) -> SSAValue:
        rank = len(shape_of(value))
        own = self.ctx.axis(axis, rank)
        order = [own, *(d for d in range(rank) if d != own)]
        return self.ctx.moved(value, graph.TransposeOp(value, order)) if own else value

    def _axis_back(self, value: SSAValue, axis: int) -> SSAValue:
        rank = len(shape_of(value))
        own = self.ctx.axis(axis, rank)
        order = [*range(1, own + 1), 0, *range(own + 1, rank)]
        return self.ctx.moved(value, graph.TransposeOp(value, order)) if own else value

    def _turned(self, value: SSAValue, backwards: int) -> SSAValue:
        if not backwards:
            return value
        count = shape_of(value)[0]
        if is_fixed([count]):
            self.ctx.builder.check_made(count)
            places = self.ctx.array(np.arange(count)[::-1].copy())
        else:
            last = self.ctx.sizes(count - 1)
            places = self.ctx.emit(graph.SubOp(last, self.ctx.positions(count)))
        return self.ctx.moved(value, graph.GatherOp(value, places, axis=0))
