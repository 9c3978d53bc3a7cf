"""What was found for a model, compared with the model as it was, and kept if it is faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tcopt.compiler.tuned import SUFFIX
from tcopt.dialects.target import AcceleratorFacts
from tcopt.runtime import Model
from tcopt.runtime.signature import flatten
from tcopt.support.target_registry import find_target
from tcopt.tools.tuning.accelerated import judge_with_accelerator
from tcopt.tools.tuning.acceptance import PATIENCE, Verdict, judge
from tcopt.tools.tuning.variants import Variants
from tcopt.tuner.lock import LockWriter, TunedKernel, TunedOperator, writer_for
from tcopt.tuner.measure.simulated import is_simulated

Array = NDArray[Any]

KEPT_GAIN = 0.8
"""Where all kernels together are not faster, those are tried that make this part of the gain."""


@dataclass(frozen=True)
class Kept:
    """What came of it.

    Attributes:
        path: the lock file, if one was written.
        verdict: how the tuned model compares; None where there was nothing to compare.
        kernels: those that the file has.
        left_out: how many kernels that are faster alone are not in the file.
    """

    path: Path | None
    verdict: Verdict | None
    kernels: tuple[TunedKernel, ...]
    left_out: int


class Keeper:
    """Compares variants of a model, and writes the lock file of the one that is kept.

    Args:
        untuned: the model as it was.
        feeds: its inputs.
        rounds: of turns; more where it is not clear whether a model is kept.
        path: the lock file.
    """

    def __init__(
        self,
        variants: Variants,
        untuned: Model,
        feeds: Mapping[str, Array],
        rounds: int,
        path: Path,
    ):
        self.untuned, self.feeds = untuned, feeds
        self._variants, self._rounds, self._path = variants, rounds, path

    def judge_operators(
        self, before: Sequence[TunedOperator], after: Sequence[TunedOperator]
    ) -> Verdict:
        """How the model with some choices about operators compares with that with others."""
        old = self._variants.with_operators(before) if before else self.untuned
        return self._judge(old, self._variants.with_operators(after), same_host=False)

    def keep(self, found: Sequence[TunedKernel], operators: Sequence[TunedOperator]) -> Kept:
        """Compare models: with all kernels, then with those that gain most."""
        verdict: Verdict | None = None
        for kernels in attempts(found) or ([[]] if operators else []):
            writer = self._writer(kernels, operators)
            new = self._variants.with_lock(writer)
            same_host = not operators and all(is_simulated(each.task) for each in kernels)
            verdict = self._judge(self.untuned, new, same_host=same_host, patience=PATIENCE)
            if verdict.accepted:
                writer.write(self._path)
                return Kept(self._path, verdict, tuple(kernels), len(found) - len(kernels))
        return Kept(None, verdict, (), len(found))

    def _judge(self, old: Model, new: Model, *, same_host: bool, patience: int = 1) -> Verdict:
        kind, machine = find_target(self._variants.target)
        if kind.is_simulated:
            facts = kind.attribute(machine)
            assert isinstance(facts, AcceleratorFacts)
            return judge_with_accelerator(
                old,
                new,
                self.feeds,
                facts.megahertz,
                self._rounds,
                same_host=same_host,
                patience=patience,
            )

        def run(model: Model) -> Callable[[], Sequence[Array]]:
            return lambda: flatten(model.run(self.feeds))

        return judge(run(old), run(new), rounds=self._rounds, patience=patience)

    def _writer(
        self, kernels: Sequence[TunedKernel], operators: Sequence[TunedOperator]
    ) -> LockWriter:
        name = self._path.name.removesuffix(SUFFIX)
        tuned = {each.target for each in operators} | {each.task.target_key for each in kernels}
        if find_target(self._variants.target)[0].is_simulated:
            # The host's other kernels are those of the model without an accelerator.
            tuned = {each.task.target_key for each in kernels if is_simulated(each.task)}
        writer = writer_for(self._path, name, tuned)
        for each in operators:
            writer.add_operator(each)
        for kernel in kernels:
            writer.add_kernel(kernel)
        return writer


def attempts(kernels: Sequence[TunedKernel]) -> list[Sequence[TunedKernel]]:
    """All kernels, then those that make most of the gain; nothing of none."""
    if not kernels:
        return []
    gains = [k.task.calls * (k.default_ns - k.ns) for k in kernels]
    fewer: list[TunedKernel] = []
    gained = 0.0
    for gain, kernel in sorted(zip(gains, kernels, strict=True), key=lambda each: -each[0]):
        if gained < KEPT_GAIN * sum(gains):
            fewer.append(kernel)
            gained += gain
    return [kernels, fewer] if len(fewer) < len(kernels) else [kernels]
