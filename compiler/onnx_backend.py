"""Implementation of ONNX's backend interface, for its conformance suite.

    rep = Backend.prepare(onnx.load("model.onnx"))
    outputs = rep.run([x])

The suite is `onnx.backend.test.BackendTest(Backend, __name__)`; see `docs/conformance.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, defs, helper
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep as OnnxBackendRep

from tcopt.compiler.entry import compile
from tcopt.runtime import Model
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError


class BackendRep(OnnxBackendRep):
    """A prepared model, which takes its inputs in the model's order or by name."""

    def __init__(self, model: Model):
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Args:
            inputs: a sequence in the model's order, a mapping by name, or one array. Array-likes
                are converted by numpy; a sequence takes a list of them, an absent optional None.
        Raises:
            InputError: the number, types or shapes of the inputs do not match the model.
        """
        specs = self.model.inputs
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        else:
            given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(given) != len(specs):
                raise InputError(f"the model has {len(specs)} inputs, {len(given)} were given")
            feeds = {spec.name: value for spec, value in zip(specs, given, strict=True)}
        kinds = {spec.name: spec.kind for spec in specs}
        given = {name: _as_arrays(value, kinds.get(name)) for name, value in feeds.items()}
        return tuple(self.model.run(given))


def _as_arrays(value: Any, kind: Kind | None) -> Any:
    """Convert an input to the form that a model takes: an array, a list of them, or None."""
    if value is None or kind is None:
        return value
    if kind.is_sequence and isinstance(value, list | tuple):
        return [np.asarray(item) for item in value]
    return np.asarray(value)


class Backend(OnnxBackend):
    """ONNX's backend interface on top of `tcopt.compile`, for this machine's CPU."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Compile a model; keyword arguments are those of `tcopt.compile`.

        Raises:
            TcoptError: the model is malformed or not supported.
        """
        return BackendRep(compile(model, **kwargs))

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Compile a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays, in the newest opset unless `opset_version` is given."""
        arrays = [np.asarray(value) for value in inputs]
        names = [name for name in node.input if name]
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, arrays, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, results)
        opset = kwargs.pop("opset_version", defs.onnx_opset_version())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is supported: only the CPU of this machine is."""
        return device.split(":")[0] == "CPU"
