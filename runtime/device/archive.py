"""The `.tcm` file of a model for a device: a zip, nothing compressed.

device.json    format version, target, inputs, outputs, sizes, kernels, steps
code/0.ptx ... the kernels' sources, `.cl` for OpenCL
weights.bin    the packed weights
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tcopt.dialects.target import GpuTargetAttr
from tcopt.runtime.archive import (
    DEVICE_DESCRIPTION,
    signature_facts,
    signature_of,
    spec_facts,
    spec_of,
)
from tcopt.runtime.device.interface import KernelSource
from tcopt.runtime.device.program import DeviceProgram
from tcopt.runtime.device.steps import Copy, Launch, Place, Step
from tcopt.support.errors import InputError, UnsupportedError

FORMAT = 1
_SUFFIXES = {"opencl": "cl", "cuda": "ptx"}


def write_device_archive(path: Path, program: DeviceProgram) -> None:
    """Write a program; the file appears whole or not at all.

    Raises:
        InputError: the folder does not exist or is not writable.
        UnsupportedError: a shared library is asked for.
    """
    if path.suffix == ".so":
        raise UnsupportedError(
            "a model for a device cannot be a shared library", hint="save it as a .tcm file"
        )
    temporary = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_member(DEVICE_DESCRIPTION), json.dumps(_describe(program), indent=1))
            for number, source in enumerate(program.sources):
                archive.writestr(_member(_code_name(program.target, number)), source.text)
            with archive.open(_member("weights.bin"), "w", force_zip64=True) as stream:
                stream.write(program.weights.data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def read_device_archive(path: Path) -> DeviceProgram:
    """Load a program.

    Raises:
        InputError: no such file, or not a compiled model.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read(DEVICE_DESCRIPTION))
            if facts.get("format") != FORMAT:
                raise InputError(
                    f"{path} has format {facts.get('format')}, this version reads {FORMAT}",
                    hint="compile the model again",
                )
            return _program(facts, archive)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a compiled model: {error}") from error


def _describe(program: DeviceProgram) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "target": program.target.facts(),
        "inputs": [spec_facts(spec) for spec in program.inputs],
        "outputs": [spec_facts(spec) for spec in program.outputs],
        "workspace_bytes": program.workspace_bytes,
        "report": program.report,
        **signature_facts(program.signature),
        "kernels": [list(source.kernels) for source in program.sources],
        "steps": [_step_facts(step) for step in program.steps],
    }


def _program(facts: dict[str, Any], archive: zipfile.ZipFile) -> DeviceProgram:
    target = GpuTargetAttr(**facts["target"])
    texts = [archive.read(_code_name(target, n)) for n in range(len(facts["kernels"]))]
    return DeviceProgram(
        target=target,
        sources=[
            KernelSource(text.decode(), tuple(names))
            for text, names in zip(texts, facts["kernels"], strict=True)
        ],
        steps=[_step(step) for step in facts["steps"]],
        inputs=[spec_of(spec) for spec in facts["inputs"]],
        outputs=[spec_of(spec) for spec in facts["outputs"]],
        weights=np.array(np.frombuffer(archive.read("weights.bin"), np.uint8)),
        workspace_bytes=facts["workspace_bytes"],
        report=facts["report"],
        signature=signature_of(facts),
    )


def _step_facts(step: Step) -> dict[str, Any]:
    if isinstance(step, Copy):
        places = {"source": _place_facts(step.source), "target": _place_facts(step.target)}
        return {"copy": step.size, **places}
    arguments = [_place_facts(place) for place in step.arguments]
    return {"launch": step.kernel, "grid": step.grid, "block": step.block, "arguments": arguments}


def _step(facts: dict[str, Any]) -> Step:
    if "copy" in facts:
        return Copy(Place(*facts["source"]), Place(*facts["target"]), facts["copy"])
    (gx, gy, gz), (bx, by, bz) = facts["grid"], facts["block"]
    arguments = tuple(Place(*place) for place in facts["arguments"])
    return Launch(facts["launch"], (gx, gy, gz), (bx, by, bz), arguments)


def _place_facts(place: Place) -> list[int]:
    return [place.buffer, place.offset]


def _code_name(target: GpuTargetAttr, number: int) -> str:
    return f"code/{number}.{_SUFFIXES[target.api.data]}"


def _member(name: str) -> zipfile.ZipInfo:
    """A member without a time, so that equal models are equal files."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o644 << 16
    return info
