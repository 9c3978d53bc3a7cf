"""Options of a run: its device, its stream, and the destinations of its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.feeds import OpenDevice, Tensor, device_tensor, host_array
from tcopt.runtime.foreign import place_of
from tcopt.runtime.specs import TensorSpec
from tcopt.support.data.shape_text import shape_text
from tcopt.support.data.strings import dtype_text, is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError

if TYPE_CHECKING:
    from tcopt.runtime.device.interface import Device

Array = NDArray[Any]
DeviceName = int | str
"""Number of a device, or a part of its name."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that concern memory.

    Attributes:
        device: the device to run on; None for the one that the environment selects.
        stream: the caller's CUDA stream; the run waits for earlier work on it, and later work on
            it waits for the run.
        on_device: leave results in the device's memory.
        out: tensors to write outputs to, by output name.
        donate: names of inputs whose arrays the run may overwrite.
        given: the caller's objects that the tensors in `out` were made from.
    """

    device: DeviceName | None = None
    stream: int | None = None
    on_device: bool = False
    out: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    given: Mapping[str, object] = field(default_factory=dict[str, object])
    donate: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        model: Runnable,
        out: Any,
        stream: int | None,
        *,
        on_device: bool = False,
        donate: Iterable[str] = (),
    ) -> RunOptions:
        """Return the options of a run of a model.

        Args:
            out: destination tensors of any library, by output name or in the order of the
                outputs; None to allocate the results.
            stream, on_device, donate: as attributes.
        Raises:
            InputError: an option is illegal for the model.
        """
        if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
            raise InputError(
                f"a stream is the number of its handle, not {type(stream).__name__}",
                hint="as in torch.cuda.current_stream().cuda_stream",
            )
        given = _by_name(model.outputs, out)
        tensors = destinations(model.outputs, given, model.open_device)
        donated = frozenset(donate)
        known = {spec.name for spec in model.inputs}
        if isinstance(donate, str) or not donated <= known:
            raise InputError(
                f"donate is the names of inputs, not {donate!r}", hint=f"they are {sorted(known)}"
            )
        return cls(model.device, stream, bool(on_device), tensors, given, donated)

    def returned(self, names: Sequence[str], results: list[Any]) -> list[Any]:
        """Return the results, with the caller's own object for each output in `out`."""
        if not self.given:
            return results
        return [self.given.get(name, found) for name, found in zip(names, results, strict=True)]


class Runnable(Protocol):
    """Protocol of models that can be run."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]

    @property
    def device(self) -> DeviceName | None: ...
    def open_device(self) -> Device | None: ...


def _by_name(specs: Sequence[TensorSpec], out: Any) -> Mapping[str, Any]:
    """Return the caller's destinations by output name."""
    if out is None or isinstance(out, Mapping):
        return out or {}
    if not isinstance(out, list | tuple):
        raise InputError(
            f"out is tensors by the names of outputs, or a list of them, not {type(out).__name__}",
            hint='as in model.run(feeds, out={"y": y})',
        )
    if len(out) != len(specs):
        raise InputError(
            f"out has {len(out)} tensors, the model {len(specs)} outputs", hint="give None for one"
        )
    pairs = zip(specs, out, strict=True)
    return {spec.name: given for spec, given in pairs if given is not None}


def destinations(
    specs: Sequence[TensorSpec], given: Mapping[str, Any], open_device: OpenDevice | None
) -> dict[str, Tensor]:
    """Return the tensors to write outputs to.

    Args:
        specs: specs of the model's outputs.
        given: writable tensors of any library, or objects with a buffer, by output name.
        open_device: returns the device that the model runs on; None for a CPU.
    Raises:
        InputError: there is no such output, or a tensor cannot be written.
    """
    known = {spec.name: spec for spec in specs}
    known_outputs([*known], given)
    return {name: _destination(known[name], value, open_device) for name, value in given.items()}


def _destination(spec: TensorSpec, value: Any, open_device: OpenDevice | None) -> Tensor:
    what = f'the tensor given for output "{spec.name}"'
    if spec.kind is not Kind.TENSOR or is_text(spec.dtype):
        raise InputError(f'output "{spec.name}" is not a tensor of numbers to write to memory')
    place = None if isinstance(value, np.ndarray) else place_of(value)
    if place is not None and not place.is_host:
        return device_tensor(what, value, place, open_device, writable=True)
    array = value
    if place is not None:
        try:
            array = host_array(value)
        except (BufferError, RuntimeError, TypeError) as error:
            raise InputError(f"{what} cannot be written: {error}") from error
    if not isinstance(array, np.ndarray):
        try:
            array = np.asarray(memoryview(array))
        except TypeError as error:
            message = f"{what} cannot be {type(value).__name__}"
            raise InputError(message, hint="give an array") from error
    if not array.flags.writeable:
        raise InputError(f"{what} is read-only", hint="give a writable one")
    return array


def check_destination(spec: TensorSpec, shape: Sequence[int], given: Tensor) -> None:
    """Check that a destination has the shape and type of its output.

    Raises:
        InputError: the shape or the type differs.
    """
    if tuple(shape) != given.shape or spec.dtype != given.dtype:
        raise InputError(
            f'output "{spec.name}" is {dtype_text(spec.dtype)}[{shape_text(shape)}], the tensor '
            f"given for it is {given.dtype}[{shape_text(given.shape)}]"
        )


def is_writable_in_place(given: Array, others: Iterable[Array]) -> bool:
    """Whether compiled code can write an output directly to an array, which none may alias.

    Args:
        others: arrays that the code uses at the same time.
    """
    flags = given.flags
    return (
        flags.c_contiguous
        and flags.aligned
        and not any(np.may_share_memory(given, other) for other in others)
    )


def deliver(
    specs: Sequence[TensorSpec], results: Sequence[Any], out: Mapping[str, Tensor]
) -> list[Any]:
    """Return the results, after copying them to the destinations that are given.

    Args:
        results: arrays; one that is its own destination is not copied.
    Raises:
        InputError: a destination has another shape or type.
    """
    found: list[Any] = []
    for spec, result in zip(specs, results, strict=True):
        given = out.get(spec.name)
        if given is not None and result is not given:
            check_destination(spec, result.shape, given)
            if isinstance(given, np.ndarray):
                np.copyto(given, result)
            else:
                given.write(result)
        found.append(result if given is None else given)
    return found


def known_outputs(names: Sequence[str], wanted: object) -> list[str]:
    """Return the names of the outputs that a run is to return.

    Raises:
        InputError: there is no output with one of the names.
    """
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise InputError(
            f"outputs must be a list of names, not {wanted!r}",
            hint=f"its outputs are {names}",
        )
    found = [*wanted]
    for name in found:
        if not isinstance(name, str) or name not in names:
            raise InputError(f'the model has no output "{name}"', hint=f"its outputs are {names}")
    return found


_MOST = 2**31 - 1


def check_count(what: str, number: object) -> int:
    """Check that a count is an integer of at least 1, and return it.

    Raises:
        InputError: the value is not such an integer.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST:
        raise InputError(f"the number of {what} should be at least 1, got {number!r}")
    return number
