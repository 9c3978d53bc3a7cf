"""Inputs with a default value, which a run may override."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from tcopt.runtime.specs import TensorSpec, select_feeds

if TYPE_CHECKING:
    from tcopt.runtime.model import Model
    from tcopt.runtime.stopping import Control


class Defaults(ABC):
    """The inputs of a model that have a default value.

    Defaults are constants in the model's program, so they cost nothing. A run that overrides one
    uses another model, in which it is an ordinary input and which is compiled when it is first
    needed.
    """

    def __init__(self) -> None:
        self._specs: Sequence[TensorSpec] | None = None
        self._models: OrderedDict[tuple[object, ...], Model] = OrderedDict()
        self._lock = Lock()

    def renew_lock(self) -> None:
        """Replace the lock in the child of a fork, as a dead thread may hold it."""
        self._lock = Lock()

    @abstractmethod
    def declared(self) -> Sequence[TensorSpec]:
        """Read the declarations of the inputs with a default."""

    @abstractmethod
    def compile(self, shapes: Mapping[str, tuple[int, ...]]) -> Model:
        """Compile the model with some of these inputs as ordinary ones of the given shapes."""

    def model_for(self, owner: Model, feeds: Any, control: Control | None = None) -> Model | None:
        """Return the model for feeds that override defaults; None if they do not.

        Threads that need the same model at once compile it once.

        Args:
            owner: the model whose defaults they are.
            control: may stop the run while it waits for another thread.
        Raises:
            InputError: a feed does not fit the declaration of its input.
        """
        if not isinstance(feeds, Mapping) or feeds.keys() <= {spec.name for spec in owner.inputs}:
            return None
        with self._lock if control is None else control.holding(self._lock):
            return self._overridden(owner, feeds)

    def _overridden(self, owner: Model, feeds: Mapping[str, Any]) -> Model | None:
        if self._specs is None:
            self._specs = self.declared()
        fed = [spec for spec in self._specs if spec.name in feeds]
        if not fed:
            return None
        given = {spec.name: feeds[spec.name] for spec in fed}
        arrays = select_feeds(fed, given, None, owner.open_device)
        shapes = {spec.name: array.shape for spec, array in zip(fed, arrays, strict=True)}
        key = tuple(sorted(shapes.items()))
        model = self._models.pop(key, None) or self.compile(shapes)
        self._models[key] = model
        while len(self._models) > owner.programs_kept:
            self._models.popitem(last=False)
        model.threads, model.device = owner.threads, owner.device
        return model
