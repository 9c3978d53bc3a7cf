"""Report of a compile: for each kernel call, the decisions made and the optimisations missed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tcopt.runtime.profile import TimedKernel, staged_calls
from tcopt.support.arithmetic.sizes import upper_bound
from tcopt.support.remarks import Remark


@dataclass(frozen=True)
class Decisions:
    """A kernel call, with the remarks of passes and rules about it.

    Attributes:
        call: the call, with its ONNX nodes, operators and work.
        share: part of the model's work, 0 to 1.
        remarks: about the kernel and its nodes, in the order in which they were made.
    """

    call: TimedKernel
    share: float
    remarks: tuple[Remark, ...]

    @property
    def choices(self) -> list[Remark]:
        """Remarks about applied decisions."""
        return [remark for remark in self.remarks if not remark.missed]

    @property
    def missed(self) -> list[Remark]:
        """Remarks about missed optimisations."""
        return [remark for remark in self.remarks if remark.missed]


@dataclass(frozen=True)
class Explanation:
    """The decisions of one compile.

    Attributes:
        calls: one entry per kernel call, in the order of execution.
        others: remarks about anything else, such as operators that were folded.
    """

    calls: tuple[Decisions, ...]
    others: tuple[Remark, ...]

    @classmethod
    def of(cls, calls: Sequence[TimedKernel], remarks: Iterable[Remark]) -> Explanation:
        """Match remarks to calls, by the kernel's name or the nodes' names."""
        remarks = tuple(dict.fromkeys(remarks))
        whole = sum(_work(call) for call in calls) or 1
        told = [tuple(r for r in remarks if _concerns(r, call)) for call in calls]
        taken = {remark for each in told for remark in each}
        return cls(
            tuple(
                Decisions(call, _work(call) / whole, each)
                for call, each in zip(calls, told, strict=True)
            ),
            tuple(remark for remark in remarks if remark not in taken),
        )

    @classmethod
    def of_stages(
        cls, stages: Sequence[tuple[Sequence[TimedKernel], Iterable[Remark]]]
    ) -> Explanation:
        """Return the explanation of programs that run one after the other, as stages."""
        parts = [cls.of(calls, remarks) for calls, remarks in stages]
        told = [each.remarks for part in parts for each in part.calls]
        calls = staged_calls([calls for calls, _ in stages])
        whole = sum(_work(call) for call in calls) or 1
        return cls(
            tuple(
                Decisions(call, _work(call) / whole, remarks)
                for call, remarks in zip(calls, told, strict=True)
            ),
            tuple(dict.fromkeys(remark for part in parts for remark in part.others)),
        )

    def heaviest(self, share: float = 0.0) -> list[Decisions]:
        """Return the calls with at least this part of the work, in decreasing order."""
        heavy = [each for each in self.calls if each.share >= share]
        return sorted(heavy, key=lambda each: -each.share)

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON values."""
        return {
            "calls": [
                {
                    "kernel": each.call.kernel,
                    **asdict(each.call.origin),
                    "work": _work(each.call),
                    "share": each.share,
                    "rule": each.call.rule,
                    "parallel": each.call.parallel,
                    "remarks": [asdict(remark) for remark in each.remarks],
                }
                for each in self.calls
            ],
            "others": [asdict(remark) for remark in self.others],
        }


def _work(call: TimedKernel) -> int:
    """Return the number of scalar operations of a call, at the upper bounds of sizes."""
    return upper_bound(call.origin.work)


def _concerns(remark: Remark, call: TimedKernel) -> bool:
    if remark.subject.startswith("@"):
        return remark.subject == f"@{call.kernel}"
    return not _names(remark.where).isdisjoint(call.origin.nodes)


def _names(where: str) -> set[str]:
    """Return the node names in a remark's location."""
    return {name.strip().strip('"') for name in where.split(", ")} - {""}
