"""Sessions: a program's memory on a device, which callers access directly, without copies.

```python
session = model.session()
session.inputs["x"].write(x)
session.start()
y = session.outputs["y"].read()
```
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.checks import refuse_if_any
from tcopt.runtime.device.arrays import DeviceArray
from tcopt.runtime.device.interface import Buffer, Device, Kernels, PreparedSteps, Times
from tcopt.runtime.device.steps import fixed_steps
from tcopt.runtime.feeds import Tensor
from tcopt.runtime.program_sizes import shape_at
from tcopt.runtime.run_options import RunOptions, check_destination
from tcopt.runtime.specs import TensorSpec
from tcopt.support.data.random_keys import new_key
from tcopt.support.errors import InputError
from tcopt.support.processes.finalizers import finalizer

if TYPE_CHECKING:
    from tcopt.runtime.device.program import DeviceProgram

Array = NDArray[Any]
_DEFAULT = RunOptions()

STEPS_KEPT = 8
"""Maximum number of cached sets of prepared steps, each for other sizes, or other input and output
addresses."""


class Resident:
    """Loaded kernels and weights of a program on a device, shared by all its sessions there."""

    def __init__(self, program: DeviceProgram, device: Device):
        self.device = device
        self.kernels: Kernels = device.load(program.sources)
        self.weights: Buffer = device.allocate(program.weights.nbytes)
        device.write(program.weights, self.weights)


class DeviceSession:
    """Device memory of a program, for one run at a time.

    Memory is allocated for the upper bounds of sizes. A new session has these shapes; see `resize`.

    Attributes:
        inputs, outputs: tensors by name, in the model's order.
    """

    def __init__(self, program: DeviceProgram, resident: Resident):
        self.device = resident.device
        self._specs = program.outputs
        self._check_specs = program.checks
        self._symbols = program.sizes
        self._values = {symbol.name: symbol.high for symbol in program.sizes}
        self.inputs, self.outputs = self._arrays(program.inputs), self._arrays(program.outputs)
        self._own_inputs, self._own_outputs = self.inputs, self.outputs
        self._input_specs = program.inputs
        self._checks = [self._array(spec) for spec in program.checks]
        self._keys = [self._array(spec) for spec in program.keys]
        self._workspace = self.device.allocate(program.workspace_bytes)
        self._resident, self._program_steps = resident, program.steps
        self._prepared: OrderedDict[tuple[int, ...], PreparedSteps] = OrderedDict()
        self._held: list[DeviceArray] = []
        # The steps of a range are prepared once the sizes are known.
        self._own_steps = (
            None
            if self._symbols
            else self._prepare([*self.inputs.values()], [*self.outputs.values()])
        )

    def _arrays(self, specs: Sequence[TensorSpec]) -> dict[str, DeviceArray]:
        return {spec.name: self._array(spec) for spec in specs}

    def _array(self, spec: TensorSpec) -> DeviceArray:
        """Allocate a tensor with the current sizes."""
        shape = shape_at(spec, self._values)
        return DeviceArray(self.device, spec.name, shape, spec.dtype)

    def resize(self, values: Sequence[int]) -> None:
        """Set the sizes of the next runs; `inputs` and `outputs` then have other shapes.

        Args:
            values: the value of each size of the program.
        Raises:
            InputError: a value is missing, or outside of the range of its size.
        """
        if len(values) != len(self._symbols):
            raise InputError(f"the program has {len(self._symbols)} sizes, not {len(values)}")
        for symbol, value in zip(self._symbols, values, strict=True):
            if not symbol.low <= value <= symbol.high or value % symbol.multiple:
                raise InputError(
                    f"size {symbol.name} cannot be {value}: it is from {symbol.low} to "
                    f"{symbol.high} in steps of {symbol.multiple}"
                )
        sizes = {s.name: value for s, value in zip(self._symbols, values, strict=True)}
        if sizes == self._values:
            return
        self._values = sizes

        def views(
            specs: Sequence[TensorSpec], arrays: Mapping[str, DeviceArray]
        ) -> dict[str, DeviceArray]:
            return {
                spec.name: DeviceArray(
                    self.device,
                    spec.name,
                    shape_at(spec, sizes),
                    spec.dtype,
                    arrays[spec.name].buffer,
                )
                for spec in specs
            }

        self.inputs = views(self._input_specs, self._own_inputs)
        self.outputs = views(self._specs, self._own_outputs)
        self._own_steps = None

    @property
    def _steps(self) -> PreparedSteps:
        """The steps of a run on the session's own tensors."""
        if self._own_steps is None:
            arrays = [*self.inputs.values()], [*self.outputs.values()]
            self._own_steps = self._bound_steps(*arrays)
        return self._own_steps

    @finalizer
    def __del__(self) -> None:
        # Freeing memory does not wait for kernels that still use it.
        self.device.wait()

    def start(self) -> None:
        """Start a run on the current contents of the inputs; return once it is enqueued."""
        self._draw()
        self._steps.start()

    def wait(self) -> None:
        """Wait for all runs that were started."""
        self.device.wait()

    def run(
        self,
        feeds: Sequence[Tensor],
        check: Callable[[], None] | None = None,
        options: RunOptions = _DEFAULT,
    ) -> list[Any]:
        """Run on checked inputs, given in the model's order, and return the results.

        Args:
            check: called between steps, if the device supports it; raises to end the run.
            options: destinations of the results and the stream; the device is ignored.
        Raises:
            InputError: the data is illegal, see `check_data`, or a tensor in `out` does not have
                the shape or type of its output.
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
        """Check that the data of the last run was legal, such as indices within bounds.

        Raises:
            InputError: it was not; the message names the node.
        """
        refuse_if_any(self._check_specs, [check.read() for check in self._checks])

    def run_timed(self, feeds: Sequence[Tensor]) -> tuple[list[Array], Times]:
        """Run, and return the results and the start and end of each step."""
        inputs, outputs = self._bound(feeds, _DEFAULT)
        times = self._steps_on(inputs, outputs).times()
        return [output.read() for output in outputs], times

    def seconds(self, runs: int = 1) -> float:
        """Return the mean time of a run, measured over consecutive runs without host copies."""
        return self._steps.seconds(runs)

    def _draw(self) -> None:
        """Write a new random key for the next run."""
        for key in self._keys:
            self.device.write(new_key(), key.buffer)

    # Tensors that a run reads and writes.

    def _bound(
        self, feeds: Sequence[Tensor], options: RunOptions
    ) -> tuple[list[DeviceArray], list[DeviceArray]]:
        """Return the inputs and outputs of a run on the device, after waiting for earlier uses.

        Arrays of the host are copied to the session's own memory. Tensors on the device are used
        in place; the session keeps them alive until the run has finished, which the next run or
        the order of the caller's stream ensures.
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
            return self._array(spec) if options.on_device else own
        check_destination(spec, own.shape, given)
        if isinstance(given, np.ndarray) or any(given.overlaps(other) for other in used):
            return own
        return given

    def _result(self, name: str, output: DeviceArray, options: RunOptions) -> Tensor:
        """Return an output in the tensor or memory that the caller asked for."""
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
        """Return the program's steps bound to the given tensors, from the cache if possible."""
        own = (*self.inputs.values(), *self.outputs.values())
        if all(a is b for a, b in zip((*inputs, *outputs), own, strict=True)):
            return self._steps
        return self._bound_steps(inputs, outputs)

    def _bound_steps(
        self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]
    ) -> PreparedSteps:
        addresses = (array.address for array in (*inputs, *outputs))
        key = (*self._values.values(), *addresses)
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
        steps = self._program_steps
        if self._symbols:
            steps = fixed_steps(steps, self._values)
        return self.device.prepare(self._resident.kernels, steps, buffers)
