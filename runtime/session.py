"""Runs of a model whose outputs are inputs of the next run.

```python
session = tcopt.Session(model, {"past": "present"})
for x in stream:
    (y,) = session.run({"x": x})
```
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.model import Model
from tcopt.runtime.specs import TensorSpec
from tcopt.support.arithmetic.sizes import Size, lower_bound
from tcopt.support.data.strings import is_text
from tcopt.support.data.structures import Kind
from tcopt.support.errors import InputError

Array = NDArray[Any]


class Session:
    """A sequence of runs of a model that share a state.

    A session is not thread-safe. Several sessions may share a model.

    Args:
        model: the model. If it was compiled with `donate`, a run updates the state in place where
            the program can.
        states: the output that is the next value of each input of the state, by input name.
        initial: values of the state before the first run; they are copied. Other inputs start with
            zeros, and sizes at their minimum.
    Raises:
        InputError: an input or output does not exist, their types differ, or an input of the state
            needs an initial value.
    """

    def __init__(
        self, model: Model, states: Mapping[str, str], initial: Mapping[str, Any] | None = None
    ):
        self.model = model
        self._states = dict(states)
        inputs = {spec.name: spec for spec in model.inputs}
        outputs = {spec.name: spec for spec in model.outputs}
        for name, result in self._states.items():
            if name not in inputs:
                raise _unknown("input", name, inputs)
            if result not in outputs:
                raise _unknown("output", result, outputs)
            if inputs[name].dtype != outputs[result].dtype:
                raise InputError(
                    f"output {outputs[result]} cannot be the next value of input {inputs[name]}",
                    hint="their types have to be equal",
                )
        self._results = [spec.name for spec in model.outputs]
        self._returned = [name for name in self._results if name not in self._states.values()]
        self._specs = {name: inputs[name] for name in self._states}
        self.reset(initial)

    def reset(self, initial: Mapping[str, Any] | None = None) -> None:
        """Start again.

        Args:
            initial: as for the class.
        """
        given = initial or {}
        for name in given:
            if name not in self._states:
                raise _unknown("state", name, self._states)
        self._values: dict[str, Any] = {
            name: np.array(given[name]) if name in given else _zeros(spec)
            for name, spec in self._specs.items()
        }

    @property
    def state(self) -> dict[str, Array]:
        """Copies of the values of the state, by input name."""
        return {name: np.array(value) for name, value in self._values.items()}

    def run(self, feeds: Mapping[str, Any], **options: Any) -> list[Any]:
        """Run the model on its other inputs, and keep the next state.

        Args:
            feeds: values of the inputs that are not states.
            options: as for `Model.run`: timeout, cancellation, seed.
        Returns:
            The outputs that are not states.
        Raises:
            TcoptError: as `Model.run`; after an error in a run the state is undefined.
        """
        taken = [name for name in feeds if name in self._states]
        if taken:
            raise InputError(
                f'input "{taken[0]}" is a state of the session', hint="use `reset` to change it"
            )
        results = self.model.run({**feeds, **self._values}, donate=[*self._states], **options)
        found = dict(zip(self._results, results, strict=True))
        self._values = {name: found[result] for name, result in self._states.items()}
        return [found[name] for name in self._returned]


def _zeros(spec: TensorSpec) -> Array:
    """Return the value that a state has before the first run."""
    extents = [lower_bound(d) for d in spec.shape if isinstance(d, int | Size)]
    is_known = len(extents) == len(spec.shape) and not spec.any_rank
    if spec.kind is not Kind.TENSOR or is_text(spec.dtype) or not is_known:
        raise InputError(f"the state {spec} has no initial value", hint="give one in `initial`")
    return np.zeros(extents, spec.dtype)


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> InputError:
    return InputError(f'there is no {what} "{name}"', hint=f"there are {', '.join(known)}")
