"""Attention over caches: one import for ranges of past and new lengths, against onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx.parser
import pytest
from onnx import ModelProto

import tcopt
from models.checks import assert_close, check_model, reference_of
from models.sized_checks import check_at_sizes
from tcopt.dialects.graph import BroadcastToOp
from tcopt.dialects.graph.core.constant import ConstantOp
from tcopt.dialects.graph.core.types import shape_of
from tcopt.frontends.onnx import import_model
from tcopt.frontends.onnx.model.errors import OpenSizeError
from tcopt.support.errors import InputError

HEADS, GROUPS, SIZE, ROOM = 6, 2, 16, 24
# onnxruntime refuses more than one new position after a past for batches.
STEPS = [(1, 0, 7), (3, 0, 2), (1, 0, 1), (2, 7, 1), (1, 8, 1), (1, 5, 6), (1, 11, 9), (3, 20, 1)]
"""Batch, past and new length."""

LENGTHS = "past_sequence_length + sequence_length"
DIMS = {
    "batch": (1, 3),
    "past_sequence_length": (0, 20),
    "sequence_length": (1, 9),
    "total_sequence_length": LENGTHS,
}
WIDTHS = f"{HEADS * SIZE}", f"{GROUPS * SIZE}"


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'


def parsed(text: str) -> ModelProto:
    """A model whose results are not declared."""
    model = onnx.parser.parse_model(text)
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    return model


def grouped(
    past: str | int, attributes: str = "", inputs: str = "", declared: str = ""
) -> ModelProto:
    """A model with GroupQueryAttention; its lengths follow from a mask as exporters write it."""
    caches = f"float[batch,{GROUPS},{past},{SIZE}]"
    wide, narrow = (f"float[batch,sequence_length,{width}]" for width in WIDTHS)
    return parsed(f"""{HEADER}
    step ({wide} q, {narrow} k, {narrow} v, {caches} past_k, {caches} past_v,
          int64[batch,total_sequence_length] mask {declared}) => (float y, float pk, float pv) {{
        one = Constant<value = int64[1] {{1}}>()
        sum = ReduceSum<keepdims = 0>(mask, one)
        last = Sub(sum, one)
        ends = Cast<to = 6>(last)
        shape = Shape<start = 1>(mask)
        rank = Constant<value_ints = [0]>()
        count = Squeeze(shape, rank)
        total = Cast<to = 6>(count)
        y, pk, pv = com.microsoft.GroupQueryAttention<num_heads = {HEADS},
            kv_num_heads = {GROUPS} {attributes}>(q, k, v, past_k, past_v, ends, total {inputs})
    }}""")


def step_feeds(
    batch: int, past: int, length: int, room: int | None = None
) -> dict[str, np.ndarray]:
    """Feeds of a step; those of a room have zeros after the past."""
    rng = np.random.default_rng(past)
    caches = [normal(rng, batch, GROUPS, past if room is None else room, SIZE) for _ in range(2)]
    for cache in caches:
        cache[:, :, past:] = 0
    return {
        "q": normal(rng, batch, length, HEADS * SIZE),
        "k": normal(rng, batch, length, GROUPS * SIZE),
        "v": normal(rng, batch, length, GROUPS * SIZE),
        "past_k": caches[0],
        "past_v": caches[1],
        "mask": np.ones((batch, past + length), np.int64),
    }


def cases(room: int | None = None, **added: np.ndarray) -> Iterator[tuple[Mapping[str, int], dict]]:
    for batch, past, length in STEPS:
        if room is not None and past + length > room:
            continue
        sizes = {"batch": batch, "sequence_length": length}
        own = {"total_sequence_length": past + length, "past_sequence_length": past}
        yield {**sizes, **own}, {**step_feeds(batch, past, length, room), **added}


@pytest.mark.parametrize(
    "attributes", ["", ", local_window_size = 4", ", softcap = 3.0, scale = 0.4"]
)
@pytest.mark.parametrize("room", [None, ROOM])
def test_groups_of_heads(attributes: str, room: int | None):
    dims = {name: DIMS[name] for name in ("batch", "sequence_length")}
    if room is None:
        model, dims = grouped("past_sequence_length", attributes), DIMS
    else:
        model = grouped(room, attributes)
        dims = {**dims, "total_sequence_length": (1, room)}
    check_at_sizes(model, dims, cases(room))


@pytest.mark.parametrize("room", [None, ROOM])
def test_rotary_positions_follow_the_past(room: int | None):
    angles = np.outer(np.arange(40), 0.5 ** np.arange(SIZE // 2)).astype(np.float32)
    past = "past_sequence_length" if room is None else room
    model = grouped(
        past,
        ", do_rotary = 1",
        ", cos, sin",
        f", float[40,{SIZE // 2}] cos, float[40,{SIZE // 2}] sin",
    )
    dims = {**DIMS, "total_sequence_length": LENGTHS if room is None else (1, room)}
    if room is not None:
        del dims["past_sequence_length"]
    check_at_sizes(model, dims, cases(room, cos=np.cos(angles), sin=np.sin(angles)))


def test_cache_in_a_room_is_updated_in_place():
    model = grouped(ROOM)
    dims = {"batch": (1, 3), "sequence_length": (1, 9), "total_sequence_length": (1, ROOM)}
    donated = {"past_k": "pk", "past_v": "pv"}
    compiled = tcopt.compile(model, dims=dims, donate=donated, workers=0)
    assert [spec.in_place_of for spec in compiled.program.outputs] == ["", *donated]
    session, reference = tcopt.Session(compiled, donated), reference_of(model)
    past = [np.zeros((1, GROUPS, ROOM, SIZE), np.float32) for _ in range(2)]
    total = 0
    for length in (5, 1, 1, 4, 1):
        total += length
        feeds = step_feeds(1, total - length, length, ROOM)
        feeds["past_k"], feeds["past_v"] = past
        wanted, *past = reference(feeds)
        (found,) = session.run({name: feeds[name] for name in ("q", "k", "v", "mask")})
        assert_close(found, wanted, 1e-5)
    for name, value in zip(donated, past, strict=True):
        assert_close(session.state[name], value, 1e-5)


def test_sequences_of_a_batch_in_a_room_have_their_own_lengths():
    feeds = step_feeds(2, 6, 1, ROOM)
    feeds["mask"][0, :3] = 0
    for name in ("past_k", "past_v"):
        feeds[name][0, :, 3:] = 0
    dims = {"batch": 2, "sequence_length": (1, 9), "total_sequence_length": 7}
    check_at_sizes(grouped(ROOM), dims, [({"sequence_length": 1}, feeds)])


def test_total_length_that_is_computed():
    """The total is an input: it bounds the keys of a room, and equals past and new ones else."""
    wide, narrow = (f"float[1,s,{width}]" for width in WIDTHS)
    for past, steps in (("p", STEPS), (ROOM, [(1, 3, 1), (1, 0, 5), (1, 23, 1), (1, 24, 1)])):
        caches = f"float[1,{GROUPS},{past},{SIZE}]"
        model = parsed(f"""{HEADER}
        step ({wide} q, {narrow} k, {narrow} v, {caches} past_k, {caches} past_v, int32[1] ends,
              int32 total) => (float y, float pk, float pv) {{
            y, pk, pv = com.microsoft.GroupQueryAttention<num_heads = {HEADS},
                kv_num_heads = {GROUPS}>(q, k, v, past_k, past_v, ends, total)
        }}""")
        dims = {"s": (1, 9), "p": (0, 20)} if past == "p" else {"s": (1, 9)}
        compiled = tcopt.compile(model, dims=dims, workers=0)
        reference = reference_of(model)
        for batch, earlier, length in steps:
            if batch > 1:
                continue
            feeds = step_feeds(1, earlier, length, None if past == "p" else ROOM)
            del feeds["mask"]
            total = earlier + length
            feeds |= {"ends": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
            for ours, theirs in zip(compiled.run(feeds), reference(feeds), strict=True):
                assert_close(ours, theirs, 1e-5)
            if past == "p":
                with pytest.raises(InputError, match="total_sequence_length"):
                    compiled.run({**feeds, "total": np.array(total + 1, np.int32)})


def test_lengths_have_to_be_related():
    dims = {**DIMS, "total_sequence_length": (1, 29)}
    with pytest.raises(OpenSizeError) as caught:
        import_model(grouped("past_sequence_length"), dims=dims)
    assert caught.value.where == "GroupQueryAttention:y"


@pytest.mark.parametrize(
    "text", ["gone + 1", "total_sequence_length + 1", "past_sequence_length - 8"]
)
def test_derived_sizes_follow_from_given_ones(text: str):
    dims = {**DIMS, "total_sequence_length": text}
    with pytest.raises(InputError, match="total_sequence_length"):
        import_model(grouped("past_sequence_length"), dims=dims)


def test_shapes_have_to_agree_with_derived_sizes():
    model = parsed("""<ir_version: 10, opset_import: ["" : 21]>
    append (float[past] x, float[new] y, float[total] z) => (float sum) {
        both = Concat<axis = 0>(x, y)
        sum = Add(both, z)
    }""")
    dims = {"past": (0, 9), "new": (1, 3), "total": "past + new"}
    compiled = tcopt.compile(model, dims=dims, workers=0)
    x, y, z = (np.ones(n, np.float32) for n in (4, 2, 6))
    assert compiled.run({"x": x, "y": y, "z": z})[0].tolist() == [2] * 6
    with pytest.raises(InputError, match="z"):
        compiled.run({"x": x, "y": y, "z": z[:5]})


_MULTI_HEAD = f"""{HEADER}
step (float[batch,sequence_length,{HEADS * SIZE}] q, float[batch,sequence_length,{HEADS * SIZE}] k,
      float[batch,sequence_length,{HEADS * SIZE}] v, int32[batch,total_sequence_length] mask,
      float[batch,{HEADS},past_sequence_length,{SIZE}] past_k,
      float[batch,{HEADS},past_sequence_length,{SIZE}] past_v) => (float y, float pk, float pv) {{
    y, pk, pv = com.microsoft.MultiHeadAttention<num_heads = {HEADS}, unidirectional = 1>(
        q, k, v, , mask, , past_k, past_v)
}}"""
_STANDARD = f"""<ir_version: 11, opset_import: ["" : 23]>
step (float[batch,{HEADS},sequence_length,{SIZE}] q, float[batch,{GROUPS},sequence_length,{SIZE}] k,
      float[batch,{GROUPS},sequence_length,{SIZE}] v,
      float[batch,{GROUPS},past_sequence_length,{SIZE}] past_k,
      float[batch,{GROUPS},past_sequence_length,{SIZE}] past_v) => (float y, float pk, float pv) {{
    y, pk, pv = Attention<is_causal = 1>(q, k, v, , past_k, past_v)
}}"""
_SCATTERED = f"""<ir_version: 11, opset_import: ["" : 24]>
step (float[batch,{HEADS},sequence_length,{SIZE}] q, float[batch,{GROUPS},sequence_length,{SIZE}] k,
      float[batch,{GROUPS},sequence_length,{SIZE}] v, float[batch,{GROUPS},{ROOM},{SIZE}] past_k,
      float[batch,{GROUPS},{ROOM},{SIZE}] past_v, int64[batch] at)
      => (float y, float pk, float pv) {{
    pk = TensorScatter<axis = 2>(past_k, k, at)
    pv = TensorScatter<axis = 2>(past_v, v, at)
    length = Shape<start = 2, end = 3>(q)
    count = Add(at, length)
    y = Attention<is_causal = 1>(q, pk, pv, , , , count)
}}"""


def _by_heads(x: np.ndarray, heads: int) -> np.ndarray:
    return np.ascontiguousarray(x.reshape(*x.shape[:2], heads, SIZE).transpose(0, 2, 1, 3))


def _feeds_of(names: Sequence[str], batch: int, past: int, length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(past)
    if "mask" in names:
        feeds = {n: normal(rng, batch, length, HEADS * SIZE) for n in "qkv"}
        mask = np.ones((batch, past + length), np.int32)
        mask[-1, 1 : past // 2] = 0
        feeds["mask"] = mask
        return feeds | {n: normal(rng, batch, HEADS, past, SIZE) for n in names[4:]}
    feeds = step_feeds(batch, past, length, ROOM if "at" in names else None)
    del feeds["mask"]
    feeds |= {n: _by_heads(feeds[n], HEADS if n == "q" else GROUPS) for n in "qkv"}
    if "at" in names:
        feeds["at"] = np.full(batch, past)
    return feeds


@pytest.mark.parametrize(
    "text", [_MULTI_HEAD, _STANDARD, _SCATTERED], ids=["multi", "standard", "scattered"]
)
def test_other_attentions(text: str):
    model = parsed(text)
    names = [info.name for info in model.graph.input]
    dims = {name: given for name, given in DIMS.items() if name in text}
    sized = [
        (sizes, _feeds_of(names, *step)) for (sizes, _), step in zip(cases(), STEPS, strict=True)
    ]
    check_at_sizes(model, dims, sized)


@pytest.mark.parametrize("form", ["grouped", "standard"])
def test_keys_are_not_repeated_and_masks_are_not_constants(form: str):
    model = grouped("past_sequence_length") if form == "grouped" else parsed(_STANDARD)
    names = {dim.dim_param for info in model.graph.input for dim in info.type.tensor_type.shape.dim}
    module = import_model(model, dims={n: given for n, given in DIMS.items() if n in names})
    least = GROUPS * SIZE
    for op in module.walk():
        if isinstance(op, ConstantOp):
            assert math.prod(shape_of(op.result)) <= least
        assert not isinstance(op, BroadcastToOp) or len(shape_of(op.result)) < 4


@pytest.mark.parametrize("attributes", ["", "<is_causal = 1, softcap = 2.0>"])
def test_other_forms_are_left_to_the_function(attributes: str):
    """Heads share keys; a mask and a bound on scores are only known to ONNX's function."""
    model = parsed(f"""<ir_version: 11, opset_import: ["" : 23]>
    layer (float[1,{HEADS},3,{SIZE}] q, float[1,{GROUPS},5,{SIZE}] k, float[1,{GROUPS},5,{SIZE}] v,
           bool[3,5] mask) => (float y) {{ y = Attention{attributes}(q, k, v, mask) }}""")
    rng = np.random.default_rng(0)
    feeds = {
        n: normal(rng, 1, h, count, SIZE)
        for n, h, count in (("q", HEADS, 3), ("k", GROUPS, 5), ("v", GROUPS, 5))
    }
    mask = rng.random((3, 5)) < 0.7
    mask[:, 0] = True
    check_model(model, {**feeds, "mask": mask})
