"""Some of the networks from packages, against onnxruntime; `make wild` runs all."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import tcopt
from models.checks import exact_options
from wild.networks import NETWORKS, TOLERANCE, Network, error
from wild.packages import NotFetched

LIGHT = ("silero_vad.onnx", "silero_vad_16k_sequence.onnx")
"""Networks with a small package that compile within a second."""


@pytest.mark.nightly(daily=["silero_vad_16k_sequence.onnx"])
@pytest.mark.parametrize(
    "network", [n for n in NETWORKS if n.file in LIGHT], ids=lambda network: network.file
)
def test_equal_to_onnxruntime(network: Network) -> None:
    """One compiled model runs all sizes and sample rates."""
    try:
        path = network.path()
    except NotFetched as reason:
        pytest.skip(str(reason))
    model = tcopt.compile(path)
    session = onnxruntime.InferenceSession(
        path, exact_options(), providers=["CPUExecutionProvider"]
    )
    for run in range(len(network.runs)):
        feeds = network.feeds(run)
        expected = [np.asarray(value) for value in session.run(None, dict(feeds))]
        assert error(expected, model.run(feeds)) <= TOLERANCE
