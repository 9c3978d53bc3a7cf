"""The `.tcm` file: a zip, nothing compressed, whose weights can be mapped into memory.

model.json    format version, target, inputs, outputs, sizes
code/0.o ...  the object files
weights.bin   the packed weights, at a multiple of the page size
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tcopt.runtime.loading import obstacle
from tcopt.runtime.program import Program, aligned_empty
from tcopt.runtime.signature import Signature
from tcopt.runtime.specs import TensorSpec
from tcopt.support.cpu_target import CpuTarget
from tcopt.support.errors import InputError
from tcopt.support.named_dtypes import named_dtype
from tcopt.support.structures import Kind

FORMAT = 3
DEVICE_DESCRIPTION = "device.json"
"""What a model for a device has instead of `model.json`."""

_PAGE = 4096
_READ = 1 << 20
_LOCAL_HEADER = 30
_PADDING_FIELD = 0xD935


def write_archive(path: Path, program: Program) -> None:
    """Write a program; the file appears whole or not at all.

    Raises:
        InputError: the folder does not exist or is not writable.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("wb") as stream:
            write_program(stream, program)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def write_program(stream: BinaryIO, program: Program) -> None:
    """Write a program to a file that is empty."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_member("model.json"), json.dumps(_describe(program), indent=1))
        for number, code in enumerate(program.objects):
            archive.writestr(_member(f"code/{number}.o"), code)
        info = _aligned_member("weights.bin", archive)
        with archive.open(info, "w", force_zip64=True) as member:
            member.write(program.weights.data)


def is_for_device(path: Path) -> bool:
    """Whether a file holds a model for a device, see `runtime.device.archive`."""
    try:
        with zipfile.ZipFile(path) as archive:
            return DEVICE_DESCRIPTION in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def read_archive(path: Path) -> Program:
    """Load a program; weights are mapped, not read.

    Raises:
        InputError: no such file, not a compiled model, or made for another CPU.
    """
    facts, objects, info = _read_members(path)
    return _program(path, facts, objects, _map_member(path, info))


def read_program(path: Path) -> Program:
    """Load a program with its weights in memory of its own, all of it checked for damage.

    Raises:
        InputError: as `read_archive`, or the file is damaged.
    """
    facts, objects, info = _read_members(path)
    weights = aligned_empty(info.file_size)
    # Meanwhile the code is linked, which only asks where the weights will be.
    with ThreadPoolExecutor(1) as pool:
        checksum = pool.submit(_read_weights, path, info, weights)
        program = _program(path, facts, objects, weights)
        if checksum.result() != info.CRC:
            raise InputError(f"{path} is damaged")
    return program


def _read_weights(path: Path, info: zipfile.ZipInfo, weights: NDArray[np.uint8]) -> int:
    """Fill the array from the file; the checksum of what was read, -1 if there is less."""
    checksum, view = 0, weights.data
    with path.open("rb", buffering=0) as stream:
        stream.seek(_data_offset(stream, info))
        for start in range(0, info.file_size, _READ):
            part = view[start : start + _READ]
            if stream.readinto(part) != len(part):
                return -1
            checksum = zlib.crc32(part, checksum)
    return checksum


def _read_members(path: Path) -> tuple[dict[str, Any], list[bytes], zipfile.ZipInfo]:
    """The description, the object files, and where the weights are."""
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read("model.json"))
            objects = [archive.read(f"code/{n}.o") for n in range(facts.get("objects", 0))]
            return facts, objects, archive.getinfo("weights.bin")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, KeyError, ValueError, AttributeError, struct.error) as error:
        raise InputError(f"{path} is not a compiled model: {error}") from error


def _program(
    path: Path, facts: dict[str, Any], objects: list[bytes], weights: NDArray[np.uint8]
) -> Program:
    try:
        _check_origin(path, facts)
        return Program(
            target=_target(path, facts["target"]),
            objects=objects,
            externals=facts["externals"],
            inputs=[spec_of(s) for s in facts["inputs"]],
            outputs=[spec_of(s) for s in facts["outputs"]],
            weights=weights,
            workspace_bytes=facts["workspace_bytes"],
            report=facts["report"],
            signature=signature_of(facts),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cause = f"its description is wrong ({error.__class__.__name__}: {error})"
        raise InputError(f"{path} is not a compiled model: {cause}") from error


def _check_origin(path: Path, facts: dict[str, Any]) -> None:
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {facts.get('format')}, this version reads {FORMAT}",
            hint="compile the model again",
        )


def _target(path: Path, facts: dict[str, Any]) -> CpuTarget:
    """What the code is for, if this machine can run it."""
    target = CpuTarget(**facts)
    reason = obstacle(target)
    if reason is not None:
        raise InputError(
            f"{path} was compiled for {target.cpu}, this machine {reason}",
            hint="compile the model on this machine, or for it",
        )
    return target


def _describe(program: Program) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "target": program.target.facts(),
        "objects": len(program.objects),
        "externals": program.externals,
        "inputs": [spec_facts(s) for s in program.inputs],
        "outputs": [spec_facts(s) for s in program.outputs],
        "workspace_bytes": program.workspace_bytes,
        "report": program.report,
        **signature_facts(program.signature),
    }


def signature_facts(signature: Signature | None) -> dict[str, Any]:
    """What describes a signature, as JSON values; nothing for none."""
    if signature is None:
        return {}
    sides = {"inputs": signature.inputs, "outputs": signature.outputs}
    facts = {side: [spec_facts(spec) for spec in specs] for side, specs in sides.items()}
    counts = {
        "input_counts": dict(signature.input_counts),
        "output_counts": dict(signature.output_counts),
    }
    return {"signature": {**facts, **counts}}


def signature_of(facts: dict[str, Any]) -> Signature | None:
    """The signature that `signature_facts` told."""
    own = facts.get("signature")
    if own is None:
        return None
    inputs, outputs = (tuple(spec_of(s) for s in own[side]) for side in ("inputs", "outputs"))
    return Signature(inputs, outputs, own["input_counts"], own["output_counts"])


def spec_facts(spec: TensorSpec) -> dict[str, Any]:
    """A specification as JSON values."""
    facts = {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype.name}
    return {
        **facts,
        **({"dims": list(spec.dims)} if spec.dims else {}),
        **({"any_rank": True} if spec.any_rank else {}),
        **({} if spec.kind is Kind.TENSOR else {"kind": spec.kind.value}),
    }


def spec_of(facts: dict[str, Any]) -> TensorSpec:
    """The specification that `spec_facts` told."""
    return TensorSpec(
        facts["name"],
        tuple(facts["shape"]),
        named_dtype(facts["dtype"]),
        tuple(facts.get("dims", ())),
        facts.get("any_rank", False),
        Kind(facts.get("kind", Kind.TENSOR)),
    )


def _member(name: str) -> zipfile.ZipInfo:
    """A member without a time, so that equal models are equal files."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o644 << 16
    return info


def _aligned_member(name: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """A member whose data starts at a page, by a padding field in its header.

    The header also gets 20 bytes of 64-bit sizes from `force_zip64`.
    """
    info = _member(name)
    assert archive.fp is not None
    start = archive.fp.tell() + _LOCAL_HEADER + len(name) + 20 + 4
    info.extra = struct.pack("<HH", _PADDING_FIELD, -start % _PAGE) + bytes(-start % _PAGE)
    return info


def _map_member(path: Path, info: zipfile.ZipInfo) -> NDArray[np.uint8]:
    if info.file_size == 0:
        return np.empty(0, np.uint8)
    try:
        with path.open("rb") as stream:
            offset = _data_offset(stream, info)
        return np.memmap(path, np.uint8, "r", offset, (info.file_size,))
    except (OSError, ValueError, struct.error) as error:
        raise InputError(f"{path} is not a compiled model: {error}") from error


def _data_offset(stream: RawIOBase | BinaryIO, info: zipfile.ZipInfo) -> int:
    """Where the data of a member starts."""
    stream.seek(info.header_offset)
    header = stream.read(_LOCAL_HEADER) or b""
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    return info.header_offset + _LOCAL_HEADER + name_length + extra_length
