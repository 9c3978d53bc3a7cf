"""Groups of cases that are summarised together, and their goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcopt.tools.benchmarking.report import BenchOutcome, geometric_mean


@dataclass(frozen=True)
class Group:
    """Cases that belong together.

    Attributes:
        goals: target ratio to the faster peer, on one thread and on several.
        least: minimum ratio of each member, in addition to the goal of the mean; None if the goal
            applies to each member.
    """

    title: str
    members: tuple[str, ...]
    goals: tuple[float, float]
    least: float | None = None


GROUPS = (
    Group("3x3 convolutions of stride 1", ("C2", "C6", "C9"), (2.0, 2.0)),
    Group("C12", ("C12",), (1.2, 1.2)),
    Group(
        "other convolutions",
        ("C1", "C3", "C4", "C5", "C7", "C8", "C10", "C11"),
        (1.0, 1.2),
        0.9,
    ),
    Group("depthwise convolutions", tuple(f"D{i}" for i in range(1, 10)), (1.4, 1.6), 0.0),
    Group("3x3 networks", ("resnet18", "vgg16", "vgg19", "unet_small"), (1.7, 1.7)),
    Group("resnet18, accuracy strict", ("resnet18_strict",), (1.2, 1.2)),
    Group(
        "other convolutional networks",
        (
            "resnet50",
            "densenet121",
            "inception_v1",
            "inception_v2",
            "squeezenet",
            "shufflenet",
            "bvlc_alexnet",
            "zfnet512",
            "mobilenet_v1",
            "mobilenet_v2",
        ),
        (1.25, 1.25),
        1.0,
    ),
    Group("transformers", ("bert_base", "vit_small"), (1.1, 1.1)),
    Group(
        "small networks",
        ("dqn", "dcgan_generator", "lstm_lm", "transformer_decoder_step"),
        (1.2, 1.2),
        1.0,
    ),
)


@dataclass(frozen=True)
class Standing:
    """Result of a group for one number of threads."""

    title: str
    threads: int
    ratios: Mapping[str, float]
    missing: tuple[str, ...]
    mean: float
    goal: float
    met: bool


def standings(outcomes: Mapping[str, list[BenchOutcome]]) -> list[Standing]:
    """Return every group with measurements.

    Args:
        outcomes: measurements of each case, one for each number of threads.
    """
    found: list[Standing] = []
    for group in GROUPS:
        threads = sorted({o.threads for m in group.members for o in outcomes.get(m, ())})
        found += [standing for t in threads if (standing := _standing(group, t, outcomes))]
    return found


def _standing(
    group: Group, threads: int, outcomes: Mapping[str, list[BenchOutcome]]
) -> Standing | None:
    ratios = {
        member: outcome.ratio
        for member in group.members
        for outcome in outcomes.get(member, ())
        if outcome.threads == threads and outcome.ratio is not None
    }
    if not ratios:
        return None
    goal = group.goals[0 if threads == 1 else 1]
    mean, worst = geometric_mean(ratios.values()), min(ratios.values())
    missing = tuple(member for member in group.members if member not in ratios)
    met = worst >= goal if group.least is None else mean >= goal and worst >= group.least
    return Standing(group.title, threads, ratios, missing, mean, goal, met and not missing)
