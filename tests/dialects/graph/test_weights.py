"""The weight store and the constants that refer to it."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tcopt.dialects import graph
from tcopt.dialects.graph.core import weights
from tcopt.dialects.graph.core.constant import is_uniform
from tcopt.dialects.graph.core.weights import WeightStore, attach_weights, weights_of
from tcopt.support.errors import InputError

DTYPES = [np.float32, np.float64, np.float16, np.int64, np.int8, np.uint8, np.bool_]


def test_files_agree_with_safetensors(tmp_path):
    arrays = {str(np.dtype(d)): np.arange(6).reshape(2, 3).astype(d) for d in DTYPES}
    arrays["scalar"] = np.array(3.0)
    arrays["empty"] = np.zeros((0, 4), np.float32)
    store = WeightStore()
    store.update(arrays)
    store.save(tmp_path / "ours")
    for name, array in load_file(tmp_path / "ours").items():
        np.testing.assert_array_equal(array, arrays[name])
    save_file(arrays, tmp_path / "theirs")
    read = WeightStore(tmp_path / "theirs")
    assert set(read) == set(arrays)
    for name, array in read.items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name])


def test_bfloat16_survives(tmp_path):
    store = WeightStore()
    store["w"] = np.array([1, 2.5], ml_dtypes.bfloat16)
    store.save(tmp_path / "w")
    assert WeightStore(tmp_path / "w")["w"].tolist() == [1, 2.5]


@pytest.mark.parametrize(
    "content",
    [b"", b"short", b"\xff" * 16, b"\x02\0\0\0\0\0\0\0[]", b'\x05\0\0\0\0\0\0\0{"a":'],
)
def test_malformed_files_are_refused(tmp_path, content):
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(InputError):
        WeightStore(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        WeightStore(tmp_path / "none")


def test_entries_outside_of_the_file_are_refused(tmp_path):
    header = b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    path = tmp_path / "bad"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    with pytest.raises(InputError, match="does not match"):
        WeightStore(path)


def test_new_names_do_not_clash():
    store = WeightStore()
    names = [store.add(np.zeros(2), "w") for _ in range(3)]
    assert len(set(names)) == 3 and names[0] == "w"


def test_a_large_array_is_stored_once():
    rng = np.random.default_rng(0)
    array = rng.standard_normal((40, 50)).astype(np.float32)
    near = array.copy()
    near[1, 1] += 1  # The difference is between the elements that are compared first.
    zeros, negative = np.zeros(2000, np.float32), -np.zeros(2000, np.float32)
    store = WeightStore()
    names = [store.add(a, "w") for a in (array, array.T.copy().T, near, array.T, zeros, negative)]
    assert names[0] == names[1]
    assert len(set(names)) == 5
    del store["w"]
    assert store.add(array, "w") == "w"
    store["w"] = near
    assert store.add(array, "v") == "v"


def test_a_store_lives_as_long_as_a_module_names_it():
    module, store = ModuleOp([]), WeightStore()
    attach_weights(module, store)
    clone = module.clone()
    name = module.attributes[weights.ATTRIBUTE].data
    del module
    gc.collect()
    assert weights_of(clone) is store
    del clone, store
    gc.collect()
    forgotten = ModuleOp([])
    forgotten.attributes[weights.ATTRIBUTE] = StringAttr(name)
    assert weights_of(forgotten) is None


def test_literals_of_uniform_arrays_hold_one_element():
    op = graph.ConstantOp.literal(np.full((100, 100), 2, np.float32))
    assert op.is_splat and op.literal_value.shape == (100, 100)
    assert not graph.ConstantOp.literal([1.0, 2.0]).is_splat
    assert not is_uniform(np.array([0.0, -0.0]))
    assert is_uniform(np.array([np.nan, np.nan]))
    assert not is_uniform(np.zeros(0))


@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16], ids=str)
def test_literals_keep_their_values(dtype):
    array = np.array([[0, 1], [1, 0]]).astype(dtype)
    op = graph.ConstantOp.literal(array)
    op.verify()
    np.testing.assert_array_equal(op.literal_value, array)
    assert op.literal_value.dtype == array.dtype
