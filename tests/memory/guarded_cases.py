"""ONNX's node cases between guard pages, with original and with mutated feeds."""

from __future__ import annotations

import warnings
import zlib
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto

import tcopt
from conformance.cases import all_cases, run_case
from memory.guard_pages import guarded
from memory.mutation import mutate
from tcopt.support.errors import TcoptError

INDEXING = tuple(
    word
    for line in (
        "gather scatter onehot one_hot roialign reversesequence reverse_sequence topk",
        "top_k compress nonmaxsuppression unique maxunpool nllloss sce cumsum argmax",
        "argmin gridsample resize slice range pad expand tile constantofshape nonzero",
        "lstm gru rnn attention loop scan center_crop col2im dft eyelike reshape trilu",
        "split sequence_at sequence_insert sequence_erase tfidf rotary tensorscatter",
        "deform affine_grid hann blackman hamming mel einsum where bitshift mod",
    )
    for word in line.split()
)
"""Substrings of the names of cases whose data may determine addresses."""


def is_indexing(name: str) -> bool:
    """Whether data may determine which elements a case accesses."""
    return name.removeprefix("test_").startswith(INDEXING)


@cache
def node_cases() -> dict[str, Any]:
    """Return ONNX's cases of single operators, with their models and feeds, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        return {c.name: c for c in node.collect_testcases(None) if c.model is not None}


def guarded_case(name: str) -> str | None:
    """Return what is wrong with a case between guard pages; other failures are ignored."""
    with guarded():
        problem = run_case(name)
    return problem if problem is not None and "GuardError" in problem else None


def feeds_of(name: str) -> tuple[ModelProto, dict[str, Any]] | None:
    """Return a case's model and first feeds by name; None if they are not arrays."""
    case = node_cases()[name]
    if not case.data_sets:
        return None
    names = [value.name for value in case.model.graph.input]
    values = [value if value is None else _array(value) for value in case.data_sets[0][0]]
    feeds = dict(zip(names, values, strict=False))
    arrays = [v for v in feeds.values() if isinstance(v, np.ndarray)]
    return (case.model, feeds) if arrays else None


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [np.asarray(item) for item in value]
    return np.asarray(value)


def mutated_case(label: str) -> str | None:
    """Return what is wrong with a case, `name#number`, whose feeds are mutated by that number.

    A typed error passes. The label selects the mutation.
    """
    name, _, _ = label.partition("#")
    given = feeds_of(name)
    if given is None:
        return None
    model, feeds = given
    changed = mutate(feeds, np.random.default_rng(zlib.crc32(label.encode())))
    try:
        with guarded(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tcopt.compile(model).run(changed)
    except TcoptError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def guarded_names() -> list[str]:
    """Return all cases except whole networks."""
    return sorted(n for n, (category, _) in all_cases().items() if "Real" not in category)
