"""States that grow in rooms: a run writes new elements after the donated past."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from tcopt.compiler.donations import donate
from tcopt.dialects.graph.core.donation import rooms_of
from tcopt.frontends.onnx import import_model
from tcopt.passes.fix_sizes import fix_sizes
from tcopt.support.errors import InputError

Array = np.ndarray[Any, Any]
DIMS = {"b": (1, 3), "p": (0, 20), "s": (1, 4)}
DONATED = {"past": "present"}


def model(nodes: str = "", past: str = "b,2,p,3", new: str = "b,2,s,3") -> ModelProto:
    nodes = (
        nodes
        or """present = Concat<axis = 2>(past, new)
        axes = Constant<value_ints = [2]>()
        y = ReduceSum(present, axes)"""
    )
    found = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
    step (float[{past}] past, float[{new}] new) => (float present, float y) {{ {nodes} }}""")
    for info in found.graph.output:
        info.type.tensor_type.ClearField("shape")
    return found


@pytest.fixture(scope="module")
def growing() -> tcopt.Model:
    return tcopt.compile(model(), dims=DIMS, donate=DONATED, cache=False, workers=0)


def rows(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def address(array: Array) -> int:
    return array.__array_interface__["data"][0]


def test_new_elements_are_written_after_the_past(growing: tcopt.Model):
    assert growing.program.outputs[0].in_place_of == "past"
    for batch in (1, 3):
        past = wanted = rows(batch, 2, 0, 3)
        places: set[int] = set()
        for step in (4, 1, 1, 3, 1):
            new = rows(batch, 2, step, 3)
            wanted = np.concatenate([wanted, new], axis=2)
            past, y = growing.run({"past": past, "new": new}, donate=["past"])
            np.testing.assert_array_equal(past, wanted)
            np.testing.assert_allclose(y, wanted.sum(axis=2, keepdims=True), atol=1e-5)
            places.add(address(past))
        assert len(places) == 1


def test_arrays_without_a_room_are_copied(growing: tcopt.Model):
    past = rows(1, 2, 5, 3)
    kept, new = past.copy(), rows(1, 2, 2, 3)
    first, _ = growing.run({"past": past, "new": new}, donate=["past"])
    np.testing.assert_array_equal(past, kept)
    # Without donation, a result in a room is an input like any other.
    second, _ = growing.run({"past": first, "new": new})
    third, _ = growing.run({"past": first, "new": new + 1})
    assert len({address(x) for x in (first, second, third)}) == 3
    np.testing.assert_array_equal(first, np.concatenate([kept, new], axis=2))
    np.testing.assert_array_equal(second, np.concatenate([first, new], axis=2))
    np.testing.assert_array_equal(third, np.concatenate([first, new + 1], axis=2))


def test_memory_after_an_array_of_the_caller_is_not_overwritten(growing: tcopt.Model):
    whole = rows(1, 2, 25, 3)
    kept = whole.copy()
    present, _ = growing.run({"past": whole[:, :, :5], "new": rows(1, 2, 2, 3)}, donate=["past"])
    np.testing.assert_array_equal(whole, kept)
    np.testing.assert_array_equal(present[:, :, :5], kept[:, :, :5])


def test_results_in_rooms_are_read_by_other_inputs_and_programs(growing: tcopt.Model):
    present, _ = growing.run({"past": rows(1, 2, 2, 3), "new": rows(1, 2, 1, 3)})
    again, _ = growing.run({"past": rows(1, 2, 0, 3), "new": present})
    np.testing.assert_array_equal(again, present)
    plain = tcopt.compile(model(), dims=DIMS, cache=False, workers=0)
    found, _ = plain.run({"past": present, "new": rows(1, 2, 1, 3)}, donate=["past"])
    np.testing.assert_array_equal(found[:, :, :3], present)


def test_donated_room_overlaps_no_other_input():
    compiled = tcopt.compile(
        model(*FORMS["rows"]), dims={"p": (0, 20), "s": (1, 4)}, donate=DONATED, workers=0
    )
    past, _ = compiled.run({"past": rows(6, 3), "new": rows(1, 3)})
    with pytest.raises(InputError, match="past"):
        compiled.run({"past": past, "new": past[5:6]}, donate=["past"])
    with pytest.raises(InputError, match="past"):
        compiled.run({"past": past[:5], "new": past[5:6]}, donate=["past"])


def test_destination_of_a_result_in_a_room(growing: tcopt.Model):
    past, new, given = rows(1, 2, 5, 3), rows(1, 2, 1, 3), np.zeros((1, 2, 6, 3), np.float32)
    found, _ = growing.run({"past": past, "new": new}, out={"present": given}, donate=["past"])
    assert found is given
    np.testing.assert_array_equal(given, np.concatenate([past, new], axis=2))


def test_ranges_end_at_the_room(growing: tcopt.Model):
    present, _ = growing.run({"past": rows(1, 2, 20, 3), "new": rows(1, 2, 4, 3)}, donate=["past"])
    with pytest.raises(InputError, match="past"):
        growing.run({"past": present, "new": rows(1, 2, 1, 3)}, donate=["past"])


def test_saved_model_keeps_rooms(growing: tcopt.Model, tmp_path: Any):
    growing.save(tmp_path / "model.tcm")
    loaded = tcopt.load(tmp_path / "model.tcm")
    assert loaded.inputs == growing.inputs and loaded.outputs == growing.outputs
    past, new = rows(1, 2, 5, 3), rows(1, 2, 1, 3)
    first, _ = loaded.run({"past": past, "new": new})
    second, _ = loaded.run({"past": first, "new": new}, donate=["past"])
    assert address(second) == address(first)
    np.testing.assert_array_equal(second, np.concatenate([past, new, new], axis=2))


FORMS = {
    "rows": ("present = Concat<axis = 0>(past, new) y = Relu(present)", "p,3", "s,3"),
    "several parts": (
        "z = Relu(new) present = Concat<axis = 1>(past, new, z) y = Neg(new)",
        "2,p,3",
        "2,s,3",
    ),
    "twice a result": ("present = Concat<axis = 1>(past, new) y = Identity(present)", "b,p", "b,s"),
    "integers": (
        """i = Cast<to = 7>(past) j = Cast<to = 7>(new) k = Concat<axis = 0>(i, j)
        present = Cast<to = 1>(k) y = Relu(new)""",
        "p",
        "s",
    ),
    "another reader": ("present = Concat<axis = 0>(past, new) y = Relu(past)", "p", "s"),
    "in front": ("present = Concat<axis = 0>(new, past) y = Relu(new)", "p", "s"),
    "fixed past": ("present = Concat<axis = 0>(past, new) y = Relu(new)", "7", "s"),
}
IN_ROOMS = ("rows", "several parts", "twice a result")


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str):
    nodes, past, new = FORMS[name]
    own = model(nodes, past, new)
    dims = {n: given for n, given in DIMS.items() if n in (*past.split(","), *new.split(","))}
    module = import_model(own, dims=dims)
    donate(module, DONATED)
    module.verify()
    assert set(rooms_of(module)) == ({"past", "present"} if name in IN_ROOMS else set())
    fix_sizes(module, {n: 2 for n in dims})
    module.verify()
    assert all(extent in (2, 3, 4, 6) for room in rooms_of(module).values() for extent in room)
    compiled = tcopt.compile(own, dims=dims, donate=DONATED, cache=False, workers=0)
    plain = tcopt.compile(own, dims=dims, cache=False, workers=0)
    values = {"b": 2, "p": 7, "s": 3}
    given = [rows(*(values.get(d) or int(d) for d in shape.split(","))) for shape in (past, new)]
    feeds = {"past": given[0], "new": given[1]}
    for ours, theirs in zip(compiled.run(feeds), plain.run(feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_room_grows_with_the_ranges_of_a_model_without_dims():
    session = tcopt.Session(
        tcopt.compile(model("", "1,2,p,3", "1,2,1,3"), donate=DONATED, cache=False, workers=0),
        DONATED,
        {"past": rows(1, 2, 1, 3)},
    )
    total = session.state["past"].sum(axis=2, keepdims=True)
    for step in range(18):
        new = np.full((1, 2, 1, 3), step, np.float32)
        total = total + new
        (y,) = session.run({"new": new})
        np.testing.assert_allclose(y, total, atol=1e-4)
    assert session.state["past"].shape == (1, 2, 19, 3)
