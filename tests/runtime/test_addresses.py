"""Addresses of arrays as passed to compiled code."""

from __future__ import annotations

import numpy as np
import pytest

from tcopt.runtime import addresses


@pytest.mark.parametrize("read", [addresses.address_of, addresses._asked, addresses._read])
def test_addresses_are_those_of_numpy(read):
    """Arrays that own their data, views, constants, subclasses and single elements."""
    whole = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    constant = np.frombuffer(b"12345678", np.int16)
    matrix = whole[1].view(np.recarray)
    for array in (whole, whole[1], whole[:, 1:, 2], constant, np.array(1.0), matrix):
        assert read(array) == array.__array_interface__["data"][0]


def test_where_objects_lie_elsewhere_numpy_is_asked(monkeypatch):
    monkeypatch.setattr(addresses, "_read", lambda array: 0)
    assert addresses._fastest() is addresses._asked


def test_other_interpreters_are_not_read(monkeypatch):
    monkeypatch.setattr(addresses.sys, "implementation", type("Other", (), {"name": "other"}))
    assert addresses._fastest() is addresses._asked


def test_spans_are_those_of_numpy():
    whole = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    views = (whole, whole[:, :2], whole[:, ::-2, 1:], whole.T, whole[::-1], whole[:1, 1:2, :3])
    for array in views:
        assert addresses.span_of(array) == np.lib.array_utils.byte_bounds(array)
