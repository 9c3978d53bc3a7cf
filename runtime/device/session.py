"""A program on its device: memory that a caller may keep, and runs that copy nothing.

```python
session = model.session()
session.inputs["x"].write(x)
session.start()
y = session.outputs["y"].read()
```
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.checks import refuse_if_any
from tcopt.runtime.device.arrays import DeviceArray
from tcopt.runtime.device.interface import Buffer, Device, Kernels, PreparedSteps, Times
from tcopt.runtime.feeds import Tensor
from tcopt.runtime.run_options import RunOptions, check_destination
from tcopt.runtime.specs import TensorSpec
from tcopt.support.finalizers import finalizer
from tcopt.support.random_keys import new_key

if TYPE_CHECKING:
    from tcopt.runtime.device.program import DeviceProgram

Array = NDArray[Any]
_DEFAULT = RunOptions()

STEPS_KEPT = 8
"""How many sets of addresses a session keeps prepared steps for, in addition to its own memory."""


class Resident:
    """What all sessions of a program share: compiled kernels, and weights in their place."""

    def __init__(self, program: DeviceProgram, device: Device):
        self.device = device
        self.kernels: Kernels = device.load(program.sources)
        self.weights: Buffer = device.allocate(program.weights.nbytes)
        device.write(program.weights, self.weights)


class DeviceSession:
    """Memory for one run at a time of a program.

    Attributes:
        inputs, outputs: tensors by name, in the model's order.
    """

    def __init__(self, program: DeviceProgram, resident: Resident):
        self.device = resident.device
        self.inputs, self.outputs = self._arrays(program.inputs), self._arrays(program.outputs)
        self._specs = program.outputs
        self._check_specs = program.checks
        self._checks = [DeviceArray.of(self.device, spec) for spec in program.checks]
        self._keys = [DeviceArray.of(self.device, spec) for spec in program.keys]
        self._workspace = self.device.allocate(program.workspace_bytes)
        self._resident, self._program_steps = resident, program.steps
        self._prepared: OrderedDict[tuple[int, ...], PreparedSteps] = OrderedDict()
        self._held: list[DeviceArray] = []
        self._steps = self._prepare([*self.inputs.values()], [*self.outputs.values()])

    def _arrays(self, specs: Sequence[TensorSpec]) -> dict[str, DeviceArray]:
        return {spec.name: DeviceArray.of(self.device, spec) for spec in specs}

    @finalizer
    def __del__(self) -> None:
        # Memory is given back at once, whatever still runs on it.
        self.device.wait()

    def start(self) -> None:
        """Run on what the inputs hold; returns when everything is asked for."""
        self._draw()
        self._steps.start()

    def wait(self) -> None:
        """Wait for all that was started."""
        self.device.wait()

    def run(
        self,
        feeds: Sequence[Tensor],
        check: Callable[[], None] | None = None,
        options: RunOptions = _DEFAULT,
    ) -> list[Any]:
        """Run on checked inputs, in order.

        Args:
            check: is called between steps, as far as the device can be asked, and raises to end
                the run.
            options: where results go; its device is not looked at.
        Raises:
            InputError: the data is refused, see `check_data`, or a tensor of `out` has another
                shape or type than its output.
        """
        inputs, outputs = self._bound(feeds, options)
        steps = self._steps_on(inputs, outputs)
        if check is None:
            steps.start()
        else:
            steps.start_checked(check)
        self.check_data()
        results = [
            self._result(spec.name, output, options)
            for spec, output in zip(self._specs, outputs, strict=True)
        ]
        if options.stream is not None:
            self.device.hold(options.stream)
            self._held = []
        return results

    def check_data(self) -> None:
        """See whether the data of the last run is what the model may be given.

        Raises:
            InputError: it is not; the message names the node.
        """
        refuse_if_any(self._check_specs, [check.read() for check in self._checks])

    def run_timed(self, feeds: Sequence[Tensor]) -> tuple[list[Array], Times]:
        """Run, with the start and end of each step."""
        inputs, outputs = self._bound(feeds, _DEFAULT)
        times = self._steps_on(inputs, outputs).times()
        return [output.read() for output in outputs], times

    def seconds(self, runs: int = 1) -> float:
        """How long a run takes of so many one after the other, without copies to and fro."""
        return self._steps.seconds(runs)

    def _draw(self) -> None:
        """Give the next run a random key of its own."""
        for key in self._keys:
            self.device.write(new_key(), key.buffer)

    # Tensors that a run reads and writes.

    def _bound(
        self, feeds: Sequence[Tensor], options: RunOptions
    ) -> tuple[list[DeviceArray], list[DeviceArray]]:
        """Return the tensors of a run, once it may use them.

        Arrays of the host are copied to the session's own memory. Tensors on the device are used
        where they are, and held until the run is known to be done: by the next one, or in the order
        of the caller's stream.
        """
        if self._held:
            self.device.wait()
        if options.stream is not None:
            self.device.follow(options.stream)
        self._draw()
        inputs: list[DeviceArray] = []
        for feed, own in zip(feeds, self.inputs.values(), strict=True):
            if isinstance(feed, np.ndarray):
                self.device.write(feed, own.buffer)
            inputs.append(own if isinstance(feed, np.ndarray) else feed)
        outputs: list[DeviceArray] = []
        for spec, own in zip(self._specs, self.outputs.values(), strict=True):
            outputs.append(self._memory(spec, own, [*inputs, *outputs], options))
        used = (*inputs, *options.out.values())
        own = {id(array) for array in self.inputs.values()}
        self._held = [a for a in used if isinstance(a, DeviceArray) and id(a) not in own]
        return inputs, outputs

    def _memory(
        self,
        spec: TensorSpec,
        own: DeviceArray,
        used: Sequence[DeviceArray],
        options: RunOptions,
    ) -> DeviceArray:
        """Return the memory that a run writes an output to."""
        given = options.out.get(spec.name)
        if given is None:
            return DeviceArray.of(self.device, spec) if options.on_device else own
        check_destination(spec, own.shape, given)
        if isinstance(given, np.ndarray) or any(given.overlaps(other) for other in used):
            return own
        return given

    def _result(self, name: str, output: DeviceArray, options: RunOptions) -> Tensor:
        """Return an output where the caller wants it."""
        given = options.out.get(name)
        if given is None:
            return output if options.on_device else output.read()
        if not isinstance(given, np.ndarray):
            if given is not output:
                given.copy_from(output)
        elif given.flags.c_contiguous:
            self.device.read(output.buffer, given)
        else:
            np.copyto(given, output.read())
        return given

    def _steps_on(
        self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> PreparedSteps:
        """Return the program's steps on certain memory, prepared now or for an earlier run."""
        own = (*self.inputs.values(), *self.outputs.values())
        if all(a is b for a, b in zip((*inputs, *outputs), own, strict=True)):
            return self._steps
        key = tuple(array.address for array in (*inputs, *outputs))
        steps = self._prepared.pop(key, None) or self._prepare(inputs, outputs)
        self._prepared[key] = steps
        if len(self._prepared) > STEPS_KEPT:
            self.device.wait()
            self._prepared.popitem(last=False)
        return steps

    def _prepare(
        self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> PreparedSteps:
        arrays = (*inputs, *self._keys, *outputs, *self._checks)
        buffers = [*(array.buffer for array in arrays), self._resident.weights, self._workspace]
        return self.device.prepare(self._resident.kernels, self._program_steps, buffers)
