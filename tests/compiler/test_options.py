"""Options of a compile: each declares whether programs depend on it, and cache keys follow."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcopt.compiler.options import CompileOptions
from tcopt.compiler.tuned import Lock
from tcopt.frontends.onnx.model.limits import ModelLimits
from tcopt.frontends.onnx.model.stage import ImportStage, PassedTensor
from tcopt.support.errors import InputError, TcoptError

OTHERS: dict[str, list[Any]] = {
    "shapes": [{"x": [1, 2]}, {"x": [[1, 2]]}, {"x": [12]}, {"y": [1, 2]}, {"x": None}],
    "values": [{"x": np.array(value)} for value in ([1, 2], [[1, 2]], [1.0, 2.0], ["1", "2"])],
    "dims": [{"n": 1}, {"n": 2}],
    "limits": [ModelLimits(nodes=7)],
    "follow_links": [True],
    "defines": [False],
    "rooms": [{"n": (1, 16)}, {"n": (1, 32)}, {"n": None}, None],
    "samples": [{"x": np.array([1])}],
    "stage": [
        ImportStage((1,), ("y",)),
        ImportStage((1,), ("y",), (PassedTensor("t", np.dtype("f4"), 1),)),
        ImportStage((1,), ("y",), known={"k": np.array([3])}),
        ImportStage((1,), ("y",), known={"k": np.array([4])}),
        ImportStage((1,), ("y",), lists={"s": None}),
        ImportStage((1,), ("y",), lists={"s": ()}),
    ],
    "target": ["cpu:haswell"],
    "accuracy": ["strict"],
    "precision": ["bf16"],
    "passes": [{"before:te": "dce"}],
    "lock": [Lock(Path("a"), False, "0"), Lock(Path("a"), False, "1"), Lock(Path("a"), True, "0")],
    "timed": [True],
    "donate": [{"a": "x"}, {"a": "y"}],
    "device": [1],
    "programs_kept": [3],
    "progress": [print],
    "cache": [False],
    "workers": [2],
}


def test_keys_depend_on_the_fields_that_say_so():
    default = CompileOptions()
    assert {each.name for each in fields(default)} == OTHERS.keys()
    for each in fields(default):
        keys = [replace(default, **{each.name: other}).key() for other in OTHERS[each.name]]
        if each.metadata["changes_code"]:
            assert len({default.key(), *keys}) == 1 + len(keys), each.name
        else:
            assert set(keys) == {default.key()}, each.name


def test_equal_options_in_other_forms_have_one_key():
    one = CompileOptions(shapes={"x": [1, 2], "y": [3]}, dims={"n": 1})
    other = CompileOptions(shapes={"y": (np.int64(3),), "x": (1, 2)}, dims={"n": np.int64(1)})
    assert one.key("model") == other.key("model") != one.key("another")


@pytest.mark.parametrize(
    "given",
    [
        {"target": "no such target"},
        {"accuracy": "none"},
        {"precision": "f8"},
        {"passes": {"beside:te": "dce"}},
        {"programs_kept": 0},
        {"locked": True},
    ],
)
def test_wrong_options_are_refused_at_once(given: dict[str, Any]):
    with pytest.raises(TcoptError):
        CompileOptions.of(b"", **given)


def test_a_missing_plugin_is_reported(tmp_path: Path):
    with pytest.raises(InputError):
        CompileOptions.of(b"", plugins=[str(tmp_path / "no.py")])
