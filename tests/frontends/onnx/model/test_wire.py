"""Decoding a model does not copy large weights, and otherwise changes nothing."""

from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tcopt.frontends.onnx.model import wire
from tcopt.frontends.onnx.model.loading import load_model
from tcopt.frontends.onnx.model.tensors import TensorReader
from tcopt.frontends.onnx.model.wire import cut_weights
from tcopt.support.errors import TcoptError


def _model() -> ModelProto:
    """Weights of several types and sizes: three large ones as bytes, one as numbers, and a small
    one."""
    rng = np.random.default_rng(3)
    arrays = {
        "a": rng.standard_normal((3, 700)).astype(np.float32),
        "odd": rng.integers(-9, 9, 4999).astype(np.int8),
        "b": rng.standard_normal(1031),
        "small": rng.standard_normal(5).astype(np.float32),
    }
    tensors = [numpy_helper.from_array(value, name) for name, value in arrays.items()]
    numbers = rng.standard_normal(1500).astype(np.float32)
    tensors.append(helper.make_tensor("numbers", TensorProto.FLOAT, [1500], numbers.tolist()))
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    node = helper.make_node("Relu", ["x"], ["y"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    return helper.make_model(helper.make_graph([node], "g", [info], [result], tensors))


def _decoded(model: ModelProto, reader: TensorReader) -> list[object]:
    """Return the whole model without the names of extracted bytes, and the tensor values."""
    values: list[object] = []
    for tensor in model.graph.initializer:
        try:
            array = reader.read(tensor, tensor.name)
            values.append((array.dtype, array.shape, array.tobytes()))
        except TcoptError as error:
            values.append(error.message)
    plain = ModelProto()
    plain.CopyFrom(model)
    for tensor in plain.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.ClearField("doc_string")
    return [plain.SerializeToString(deterministic=True), *values]


def test_large_weights_are_views_of_the_data(tmp_path: Path) -> None:
    model = _model()
    data = model.SerializeToString()
    cut = cut_weights(memoryview(data))
    assert cut is not None
    rest, weights = cut
    assert [len(w) for w in weights.values()] == [8400, 4999, 8248]
    assert all(w.obj is data for w in weights.values())
    assert len(rest) < len(data) - 8400 - 4999 - 8248 + 300
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    expected = _decoded(model, TensorReader(None))
    assert _decoded(*load_model(data)) == expected
    assert _decoded(*load_model(path)) == expected


def test_changed_bytes_decode_as_without_it() -> None:
    data = _model().SerializeToString()
    rng = np.random.default_rng(8)
    # Mutations avoid the weight bytes, which are most of the data.
    places = [*range(60), *(len(data) - 1 - i for i in range(60))]
    for tensor in ("a", "odd", "b", "small", "numbers"):
        at = data.find(bytes([0x42, len(tensor)]) + tensor.encode())
        assert at > 0
        places += range(at - 12, at + 12)
    for _ in range(400):
        changed = bytearray(data)
        for place in rng.choice(places, rng.integers(1, 4)):
            changed[place] = rng.choice([0, 1, 0x4A, 0x70, 0x80, 0xFF, rng.integers(256)])
        if rng.integers(8) == 0:
            del changed[rng.integers(len(changed)) :]
        _compare(bytes(changed))


def _compare(data: bytes) -> None:
    plain = ModelProto()
    try:
        plain.ParseFromString(data)
    except DecodeError:
        with pytest.raises(TcoptError):
            load_model(data)
        return
    try:
        model, reader = load_model(data)
    except TcoptError:
        return  # Errors in the header or a name are reported for both.
    assert _decoded(model, reader) == _decoded(plain, TensorReader(None))


@pytest.mark.parametrize(
    "change",
    [
        {"data_location": TensorProto.EXTERNAL},
        {"doc_string": "of its own"},
        {"float_data": [1.0]},
    ],
)
def test_other_fields_of_a_tensor_mean_what_they_did(change: dict[str, object]) -> None:
    model = _model()
    model.graph.initializer[0].MergeFrom(TensorProto(**change))
    _compare(model.SerializeToString())


def test_bytes_or_graphs_given_twice_are_left_to_the_decoder() -> None:
    model = _model()
    data = model.SerializeToString()
    assert cut_weights(memoryview(data + data)) is None
    _compare(data + data)
    first = model.graph.initializer[0].SerializeToString()
    twice = TensorProto.FromString(first + first).SerializeToString() + first
    tensor = _field(5, twice)
    graph = _field(7, tensor)
    assert cut_weights(memoryview(graph)) is None


def test_many_small_fields_are_left_to_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _model().SerializeToString()
    monkeypatch.setattr(wire, "_MOST_FIELDS", 10)
    assert cut_weights(memoryview(data)) is None
    _compare(data)


def _field(number: int, value: bytes) -> bytes:
    length, left = bytearray(), len(value)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([number << 3 | 2, *length, left]) + value
