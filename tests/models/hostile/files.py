"""Files that are not models, and models with external files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import TensorProto

from models.convolutional import residual_net
from models.hostile.building import (
    FLOAT,
    Models,
    model_of,
    node,
)


def files() -> Models:
    whole = residual_net(16, 4).SerializeToString()
    yield "empty", b""
    yield "text", b"ceci n'est pas un modele"
    yield "zeros", bytes(1000)
    yield "ones", b"\xff" * 1000
    yield "endless varint", b"\x80" * 100_000
    yield "length beyond the end", b"\x3a\xff\xff\xff\xff\x0f" + bytes(10)
    yield "random", np.random.default_rng(0).bytes(4096)
    for part in range(1, 16):
        yield f"cut at {part}/16", whole[: len(whole) * part // 16]
    yield "nested protobuf", _nested_messages(5000)
    yield "name not text", whole.replace(b"Relu", b"\xff\xfe\xfd\xfc")
    yield "twice", whole + whole
    yield "a folder", lambda folder: folder
    yield "a pipe", _pipe
    yield "a link to a device", _device


def _nested_messages(depth: int) -> bytes:
    """Graphs nested in attributes of nodes, as bytes that no encoder would write."""
    data = b""
    for tag in [b"\x32", b"\x2a", b"\x0a"] * depth:
        size, length = len(data), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        data = tag + length + bytes([size]) + data
    return b"\x08\x08\x3a" + data[1:]


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.onnx")
    return folder / "pipe.onnx"


def _device(folder: Path) -> Path:
    (folder / "zero.onnx").symlink_to("/dev/zero")
    return folder / "zero.onnx"


def external_files() -> Models:
    for location in (
        "/etc/passwd",
        "../secret.bin",
        "sub/../../secret.bin",
        "./../secret.bin",
        "..\\secret.bin",
        "",
        ".",
        "sub",
        "a\0b",
        "absent.bin",
        "link.bin",
        "linked/secret.bin",
        "pipe",
        "zero",
        "\x1b[2J%s%n",
        "x" * 100_000,
        "a/" * 50_000,
        "file:///etc/passwd",
        "loop",
    ):
        yield f"external {location[:40]!r}", _external(location)
    for entries in (
        {"offset": "1"},
        {"offset": "-1"},
        {"offset": "9" * 30},
        {"offset": "9" * 10_000},
        {"offset": "0x10"},
        {"offset": "1e3"},
        {"offset": str(2**63)},
        {"length": "0"},
        {"length": "-1"},
        {"length": str(2**70)},
        {"length": "many"},
        {"offset": "8", "length": "256"},
    ):
        title = " ".join(f"{key}={value[:30]}" for key, value in entries.items())
        yield f"external {title}", _external("w.bin", **entries)
    yield "external bomb", _external("w.bin", dims=[2**50])
    yield "external overflow", _external("w.bin", dims=[2**62, 4])


def _external(location: str, dims=(64,), **entries: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        models = folder / "models"
        (models / "sub").mkdir(parents=True)
        data = np.arange(64, dtype=np.float32).tobytes()
        (folder / "secret.bin").write_bytes(data)
        (models / "w.bin").write_bytes(data)
        (models / "link.bin").symlink_to("../secret.bin")
        (models / "linked").symlink_to("..")
        (models / "loop").symlink_to("loop")
        (models / "zero").symlink_to("/dev/zero")
        os.mkfifo(models / "pipe")
        weight = TensorProto(name="w", dims=dims, data_type=FLOAT)
        weight.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            weight.external_data.add(key=key, value=value)
        model = model_of(node("Add", "x w"), shape=(64,), weights={"w": weight})
        (models / "m.onnx").write_bytes(model.SerializeToString())
        return models / "m.onnx"

    return write
