"""Comparison of tuned models with the untuned one, and storage of accepted schedules."""

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
from tcopt.support.registries.target_registry import find_target
from tcopt.tuner.lock import LockWriter, TunedKernel, TunedOperator, writer_for
from tcopt.tuner.measure.simulated import is_simulated
from tcopt.tuner.whole_models.accelerated import judge_with_accelerator
from tcopt.tuner.whole_models.acceptance import PATIENCE, Verdict, judge
from tcopt.tuner.whole_models.variants import Variants

Array = NDArray[Any]

KEPT_GAIN = 0.8
"""If all kernels together are not faster, the kernels with this part of the gain are tried."""


@dataclass(frozen=True)
class Kept:
    """The result of the comparison.

    Attributes:
        path: the lock file, if one was written.
        verdict: comparison of the tuned model; None if there was nothing to compare.
        kernels: those in the lock file.
        left_out: number of improved kernels that are not in the lock file.
    """

    path: Path | None
    verdict: Verdict | None
    kernels: tuple[TunedKernel, ...]
    left_out: int


class VariantKeeper:
    """Compare variants of a model, and write the lock file of the accepted one.

    Args:
        untuned: the model without tuning.
        feeds: its inputs.
        rounds: number of interleaved rounds; more if the result is unclear.
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
        """Compare the models with two sets of choices about operators."""
        old = self._variants.with_operators(before) if before else self.untuned
        return self._judge(old, self._variants.with_operators(after), same_host=False)

    def keep(self, found: Sequence[TunedKernel], operators: Sequence[TunedOperator]) -> Kept:
        """Compare the model with all kernels, then with those of the largest gain; keep the first
        accepted.
        """
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
        kind, machine = find_target(self._variants.options.target)
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
        if find_target(self._variants.options.target)[0].is_simulated:
            # Kernels on the host are the same as in the model without an accelerator, so they keep
            # their entries.
            tuned = {each.task.target_key for each in kernels if is_simulated(each.task)}
        writer = writer_for(self._path, name, tuned)
        for each in operators:
            writer.add_operator(each)
        for kernel in kernels:
            writer.add_kernel(kernel)
        return writer


def attempts(kernels: Sequence[TunedKernel]) -> list[Sequence[TunedKernel]]:
    """Return the sets of kernels to try: all of them, then those with most of the gain."""
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
