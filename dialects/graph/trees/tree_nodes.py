"""Inner nodes of decision trees as records, so that a step down a tree reads one cache line.

A record is a row of 32-bit words:

    threshold     its bits, one word or two
    head          bits 0-27: the feature; bits 28-31: the relations in which the test holds, among
                  those that are not common to all tests
    fails, holds  the distance to the child, modulo 2^32, if the test fails, and if it holds

The address of an inner node is the index of its first word. Leaves are numbered from the index
after the last inner node's record. At that index, one final record serves all leaves: its distances
are 0, so that a step from a leaf stays there.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FEATURE_BITS = 28


class NodeRelation(IntFlag):
    """Relation of a feature to a threshold; a test is the set of relations in which it holds."""

    LESS = 1
    EQUAL = 2
    GREATER = 4
    UNORDERED = 8
    """The feature is nan; a threshold never is."""


class NodeFields(NamedTuple):
    """Fields of inner nodes; `children` is [nodes, 2], with the child for a failing test first."""

    thresholds: NDArray[Any]
    tests: NDArray[Any]
    features: NDArray[Any]
    children: NDArray[Any]


def words_of(width: int) -> int:
    """Return the number of words in a record whose threshold has `width` bits."""
    return width // 32 + 3


def addresses_of(nodes: NDArray[Any], inner: int, words: int) -> NDArray[Any]:
    """Return the addresses of nodes given by number; a leaf is given as -1 - leaf."""
    return np.where(nodes < 0, inner * words - 1 - nodes, nodes * words)


def pack_nodes(fields: NodeFields) -> NDArray[np.uint32]:
    """Pack inner nodes with thresholds of f32 or f64; leaves among children are given as -1 -
    leaf."""
    words, inner = words_of(fields.thresholds.itemsize * 8), len(fields.thresholds)
    records = np.zeros((inner + 1, words), np.uint32)
    thresholds = np.ascontiguousarray(fields.thresholds).view(np.uint32)
    records[:-1, :-3] = thresholds.reshape(-1, words - 3)
    records[:-1, -3] = (fields.tests << FEATURE_BITS) | fields.features
    starts = np.arange(inner)[:, None] * words
    records[:-1, -2:] = addresses_of(fields.children, inner, words) - starts
    return records.reshape(-1)


def unpack_nodes(words: NDArray[Any], dtype: np.dtype[Any]) -> NodeFields:
    """Unpack records with thresholds of type `dtype`; children are addresses."""
    width = words_of(dtype.itemsize * 8)
    records = words.reshape(-1, width)
    thresholds = np.ascontiguousarray(records[:, :-3]).view(dtype).reshape(-1)
    head = records[:, -3].astype(np.int64)
    tests, features = head >> FEATURE_BITS, head & ((1 << FEATURE_BITS) - 1)
    starts = np.arange(0, len(words), width, dtype=np.uint32)[:, None]
    return NodeFields(thresholds, tests, features, (records[:, -2:] + starts).astype(np.int64))
