"""Sessions, and results in the memory of donated inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tcopt
from tcopt.support.errors import InputError

_CACHE = "float[2,3,8,4]"
_UPDATES: dict[str, tuple[str, bool]] = {
    "tensor_scatter": ("present = TensorScatter<axis = 2>(past, new, at)", True),
    "scatter_elements": (
        """rank = Constant<value_ints = [2, 1, 1, 1]>()
        rows = Reshape(at, rank)
        shape = Shape(new)
        wide = Expand(rows, shape)
        present = ScatterElements<axis = 2>(past, wide, new)""",
        True,
    ),
    "chain": (
        """next = Add(at, one)
        first = TensorScatter<axis = 2>(past, new, at)
        present = TensorScatter<axis = 2>(first, new, next)""",
        True,
    ),
    "earlier_reader": (
        """old = ReduceSum(past, axes)
        scaled = Mul(new, old)
        present = TensorScatter<axis = 2>(past, scaled, at)""",
        True,
    ),
    "later_reader": (
        """present = TensorScatter<axis = 2>(past, new, at)
        both = Mul(present, past)""",
        False,
    ),
    "old_state_is_a_result": (
        """present = TensorScatter<axis = 2>(past, new, at)
        both = Identity(past)""",
        False,
    ),
    "unchanged": ("present = Identity(past)", True),
    "computed": ("present = Add(past, new)", False),
}


def _model(nodes: str) -> onnx.ModelProto:
    """Return a model with a state, `past` to `present`, and two results that read it."""
    both = "" if "both =" in nodes else "both = Add(present, present)"
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 24]>
    step ({_CACHE} past, float[2,3,1,4] new, int64[2] at) => ({_CACHE} present, {_CACHE} both) {{
        axes = Constant<value_ints = [2]>()
        one = Constant<value = int64[1] {{1}}>()
        {nodes}
        {both}
    }}""")


def _feeds(step: int) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    new = rng.standard_normal((2, 3, 1, 4), np.float32)
    return {"new": new, "at": np.array([step, step + 1])}


@pytest.mark.parametrize("name", _UPDATES)
def test_session_equals_runs_that_pass_the_state(name: str):
    nodes, in_place = _UPDATES[name]
    model = _model(nodes)
    plain = tcopt.compile(model, cache=False, workers=0)
    compiled = tcopt.compile(model, donate={"past": "present"}, cache=False, workers=0)
    assert compiled.program.outputs[0].in_place_of == ("past" if in_place else "")
    start = np.random.default_rng(9).standard_normal((2, 3, 8, 4), np.float32)
    session = tcopt.Session(compiled, {"past": "present"}, {"past": start})
    state = start
    for step in range(3):
        state, wanted = plain.run({**_feeds(step), "past": state})
        (both,) = session.run(_feeds(step))
        np.testing.assert_array_equal(both, wanted)
        np.testing.assert_array_equal(session.state["past"], state)


@pytest.fixture(scope="module")
def updated() -> tcopt.Model:
    model = _model(_UPDATES["tensor_scatter"][0])
    return tcopt.compile(model, donate={"past": "present"}, cache=False, workers=0)


def _past() -> np.ndarray[Any, Any]:
    return np.zeros((2, 3, 8, 4), np.float32)


def test_runs_overwrite_donated_inputs_only(updated: tcopt.Model):
    past = _past()
    kept, _ = updated.run({"past": past, **_feeds(0)})
    assert not past.any()
    donated, _ = updated.run({"past": past, **_feeds(0)}, donate=["past"])
    assert donated is past
    np.testing.assert_array_equal(donated, kept)


def test_result_of_an_update_may_have_a_destination(updated: tcopt.Model):
    past, wanted = _past(), updated.run({"past": _past(), **_feeds(1)})[0]
    for donate in ([], ["past"]):
        given = np.ones_like(past)
        found, _ = updated.run({"past": past, **_feeds(1)}, out={"present": given}, donate=donate)
        assert found is given
        np.testing.assert_array_equal(given, wanted)


def test_read_only_array_is_copied(updated: tcopt.Model):
    past = _past()
    past.flags.writeable = False
    present, _ = updated.run({"past": past, **_feeds(0)}, donate=["past"])
    assert not past.any() and present.any()


def test_donated_array_overlaps_no_other_input(updated: tcopt.Model):
    past = _past()
    feeds = {**_feeds(0), "past": past, "new": past.reshape(-1)[:24].reshape(2, 3, 1, 4)}
    updated.run(feeds)
    with pytest.raises(InputError, match="past"):
        updated.run(feeds, donate=["past"])


def test_saved_model_updates_in_place(updated: tcopt.Model, tmp_path: Any):
    updated.save(tmp_path / "model.tcm")
    past, loaded = _past(), tcopt.load(tmp_path / "model.tcm")
    present, _ = loaded.run({"past": past, **_feeds(0)}, donate=["past"])
    assert present is past and past.any()


@pytest.mark.parametrize(
    "donate", [{"gone": "present"}, {"past": "gone"}, {"past": "present", "new": "present"}]
)
def test_donation_names_inputs_and_outputs(donate: Mapping[str, str]):
    with pytest.raises(InputError, match="donate"):
        tcopt.compile(_model("present = Identity(past)"), donate=donate, cache=False, workers=0)


def test_unknown_names_of_a_run_and_a_session(updated: tcopt.Model):
    with pytest.raises(InputError, match="gone"):
        updated.run({"past": _past(), **_feeds(0)}, donate=["gone"])
    with pytest.raises(InputError, match="gone"):
        tcopt.Session(updated, {"past": "gone"})
    with pytest.raises(InputError, match="past"):
        tcopt.Session(updated, {"past": "present"}).run({"past": _past(), **_feeds(0)})


def test_state_that_grows():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
    append (float[2, past, 3] old, float[2, 1, 3] new)
        => (float[2, total, 3] all, float[2, 1, 3] sum) {
        all = Concat<axis = 1>(old, new)
        axes = Constant<value_ints = [1]>()
        sum = ReduceSum(all, axes)
    }""").SerializeToString()
    compiled = tcopt.compile(model, dims={"past": (0, 15)}, cache=False, workers=0)
    session = tcopt.Session(compiled, {"old": "all"})
    total = np.zeros((2, 1, 3), np.float32)
    rows = [np.full((2, 1, 3), step + 1, np.float32) for step in range(4)]
    for new in rows:
        total += new
        np.testing.assert_array_equal(session.run({"new": new})[0], total)
    assert session.state["old"].shape == (2, 4, 3)
    session.reset()
    np.testing.assert_array_equal(session.run({"new": rows[1]})[0], rows[1])
