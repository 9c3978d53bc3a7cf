"""One published claim: where it is, what it says, and how this project answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from claims.results import Results


class Kind(Enum):
    """Ways to find an answer."""

    MEASURED = "measured"
    SIMULATED = "simulated"
    COUNTED = "counted"
    ESTIMATED = "estimated"
    MISSING = "not to be had here"


@dataclass(frozen=True)
class Claim:
    """A figure, table or number of a source.

    Attributes:
        source: a key of `SOURCES`.
        where: figure, table or section.
        text: what it claims.
        command: reproduces the answer.
        kind: how.
        answer: the answer from saved results, in one or two sentences.
        results: names of the results that `answer` reads.
        lacking: what the original claim needs that there is not; empty if nothing.
    """

    source: str
    where: str
    text: str
    command: str
    kind: Kind
    answer: Callable[[Results], str]
    results: tuple[str, ...] = ()
    lacking: str = ""


SOURCES: Mapping[str, str] = {
    "tvm": "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning (OSDI 2018)",
    "autotvm": "Automatic Kernel Optimization for Deep Learning on All Hardware Platforms (2018)",
    "mali": "Optimizing Mobile Deep Learning on ARM GPU with TVM (2018)",
    "int8": "Automating Optimization of Quantized Deep Learning Models on CUDA (2019)",
    "nmt": "Bringing TVM into TensorFlow for Optimizing Neural Machine Translation on GPU (2018)",
}
