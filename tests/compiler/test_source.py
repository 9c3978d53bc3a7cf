"""A model computes what its source was at compile time, for every later shape."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

import tcopt
from tcopt.frontends.onnx.model import loading
from tcopt.support.errors import ImportModelError, InputError

OPEN = """<ir_version: 10, opset_import: ["" : 21]>
scaled (float[n, 2000] x) => (float[n, 2000] y) { y = Mul(x, w) }"""

STAGED = """<ir_version: 10, opset_import: ["" : 21]>
staged (float[8] x) => (float[m, k] y) <int64[1] rest = {-1}, int64[1] one = {1}> {
  s = ReduceSum <keepdims = 0> (x) c = Cast <to = 7> (s) n = Reshape(c, one)
  t = Concat <axis = 0> (n, rest) z = Reshape(x, t)
  v = ReduceSum <keepdims = 0> (w) y = Mul(z, v)
}"""


def scaled(value: float, text: str = OPEN) -> ModelProto:
    model = onnx.parser.parse_model(text)
    weight = np.full(2000, value, np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def first(model: tcopt.Model, rows: int) -> float:
    return float(model.run({"x": np.ones((rows, 2000), np.float32)})[0][0, 0])


@pytest.fixture(params=["cache", "no cache"])
def cache(request, monkeypatch, tmp_path) -> bool:
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TCOPT_CACHE")
    return request.param == "cache"


@pytest.mark.parametrize("change", ["written", "replaced", "gone", "another size"])
def test_a_file_that_changes_is_noticed(tmp_path, cache, change):
    path = tmp_path / "m.onnx"
    onnx.save(scaled(1), path)
    model = tcopt.compile(path, cache=cache)
    assert first(model, 1) == 1
    if change == "written":
        onnx.save(scaled(2), path)
    elif change == "replaced":
        onnx.save(scaled(2), tmp_path / "n.onnx")
        os.replace(tmp_path / "n.onnx", path)
    elif change == "another size":
        onnx.save(scaled(2, OPEN.replace("scaled", "scaled2")), path)
    else:
        path.unlink()
    assert first(model, 1) == 1
    with pytest.raises(
        InputError, match="is missing" if change == "gone" else "has changed"
    ) as caught:
        first(model, 2)
    assert "read_bytes" in (caught.value.hint or "")
    with pytest.raises(InputError):
        model.explain({"x": np.ones((2, 2000), np.float32)})


def test_a_file_that_was_only_touched_is_no_change(tmp_path, monkeypatch):
    monkeypatch.setenv("TCOPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TCOPT_CACHE")
    path = tmp_path / "m.onnx"
    onnx.save(scaled(1), path)
    model = tcopt.compile(path)
    os.utime(path, (1, 1))
    assert first(model, 2) == 1
    onnx.save(scaled(2), path)
    with pytest.raises(InputError, match="has changed"):
        first(model, 3)


@pytest.mark.parametrize("part", ["m.onnx", "w.bin"])
def test_weights_in_other_files(tmp_path, cache, part):
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        proto, path = scaled(value), tmp_path / folder / "m.onnx"
        proto.doc_string = folder
        onnx.save(proto, path, save_as_external_data=True, location="w.bin")
    model = tcopt.compile(tmp_path / "a" / "m.onnx", cache=cache)
    assert first(model, 1) == 1
    shutil.copyfile(tmp_path / "b" / part, tmp_path / "a" / part)
    with pytest.raises(InputError, match="has changed"):
        first(model, 2)
    # Programs from the cache are checked in the same way.
    again = tcopt.compile(tmp_path / "b" / "m.onnx", cache=cache)
    assert first(again, 2) == 2
    (tmp_path / "b" / "w.bin").unlink()
    with pytest.raises(InputError, match="is missing"):
        first(again, 3)


def test_a_relative_path_stays_what_it_was(tmp_path, monkeypatch):
    onnx.save(scaled(1), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    model = tcopt.compile("m.onnx")
    monkeypatch.chdir("/")
    assert first(model, 2) == 1


def test_models_in_memory_are_kept(cache):
    proto = scaled(1)
    model = tcopt.compile(proto, cache=cache)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full(2000, 2, np.float32), "w"))
    assert first(model, 1) == 1 and first(model, 2) == 1
    data = bytearray(scaled(1).SerializeToString())
    model = tcopt.compile(data, cache=cache)
    data[:] = bytes(len(data))
    assert first(model, 1) == 1 and first(model, 2) == 1


def test_models_of_stages_are_kept(tmp_path, cache):
    proto = scaled(1, STAGED)
    model = tcopt.compile(proto, cache=cache)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full(2000, 2, np.float32), "w"))
    path = tmp_path / "m.onnx"
    onnx.save(scaled(1, STAGED), path)
    from_file = tcopt.compile(path, cache=cache)
    onnx.save(scaled(2, STAGED), path)
    for ones in (2, 4):
        x = (np.arange(8) < ones).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x})[0], (2000 * x).reshape(ones, -1))
        with pytest.raises(InputError, match="has changed"):
            from_file.run({"x": x})


@pytest.mark.parametrize(
    "source", [None, 3, [], "", "a\0b", "/no/such/model.onnx", "/", "/dev/zero"]
)
def test_what_is_no_model(source):
    with pytest.raises(InputError):
        tcopt.compile(source)


# Model hub folders: names are symbolic links to the content.


def hub(folder: Path, value: float = 1) -> Path:
    """`snapshots/1/m.onnx` and its weights, as links to `blobs`."""
    snapshot, blobs = folder / "snapshots" / "1", folder / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    onnx.save(scaled(value), blobs / "m.onnx", save_as_external_data=True, location="w.bin")
    for name in ("m.onnx", "w.bin"):
        (blobs / name).rename(blobs / f"hash-of-{name}")
        (snapshot / name).symlink_to(f"../../blobs/hash-of-{name}")
    return snapshot / "m.onnx"


def test_links_out_of_the_folder_are_followed_if_it_is_allowed(tmp_path, cache, run_tool):
    path = hub(tmp_path / "hub")
    for _ in range(2):
        model = tcopt.compile(path, shapes={"x": (2, 2000)}, follow_links=True, cache=cache)
        assert first(model, 2) == 1
        with pytest.raises(ImportModelError, match="outside the model's folder") as caught:
            tcopt.compile(path, shapes={"x": (2, 2000)}, cache=cache)
        hint = caught.value.hint or ""
        assert "follow_links=True" in hint and "--follow-links" in hint
    # A link to another file is another model.
    blobs = tmp_path / "hub" / "blobs"
    weights = numpy_helper.to_array(scaled(3).graph.initializer[0]).tobytes()
    (blobs / "new").write_bytes(weights)
    (path.parent / "w.bin").unlink()
    (path.parent / "w.bin").symlink_to("../../blobs/new")
    model = tcopt.compile(path, shapes={"x": (2, 2000)}, follow_links=True, cache=cache)
    assert first(model, 2) == 3


def test_a_link_that_changes_within_the_folder(tmp_path, cache):
    for value in (1, 2):
        weights = np.full(2000, value, np.float32)
        (tmp_path / f"w{value}.bin").write_bytes(weights.tobytes())
    proto = scaled(1)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    onnx.save_model(proto, tmp_path / "m.onnx")
    for value in (1, 2):
        (tmp_path / "w.bin").unlink(missing_ok=True)
        (tmp_path / "w.bin").symlink_to(f"w{value}.bin")
        model = tcopt.compile(tmp_path / "m.onnx", shapes={"x": (2, 2000)}, cache=cache)
        assert first(model, 2) == value


@pytest.mark.nightly
def test_tools_follow_links_if_it_is_asked_for(tmp_path, run_tool):
    path = hub(tmp_path / "hub")
    for tool in (["tcopt-check"], ["tcopt"], ["tcopt-compile", "-o", tmp_path / "m.tcm"]):
        name, *options = tool
        refused = run_tool(name, path, "--dim", "n=2", *options)
        assert refused.returncode == 1 and "--follow-links" in refused.stdout + refused.stderr
        done = run_tool(name, path, "--dim", "n=2", *options, "--follow-links")
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", [OPEN, STAGED], ids=["open shapes", "stages"])
def test_a_model_is_decoded_once(tmp_path, monkeypatch, text):
    """Compilation waits for shapes from a run, or for the input of a later stage."""
    decoded = []
    decode = loading._decode

    def counted(*arguments):
        decoded.append(arguments)
        return decode(*arguments)

    monkeypatch.setattr(loading, "_decode", counted)
    path = tmp_path / "model.onnx"
    onnx.save(scaled(1.0, text), path)
    model = tcopt.compile(path, cache=False, workers=0)
    assert len(decoded) == 1
    assert [spec.name for spec in model.outputs] == ["y"]
