"""Whole networks, compiled to native code, against onnxruntime."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from onnx import ModelProto

import tcopt
from models import convolutional, transformers
from models.checks import run_reference
from models.light_models import LIGHT_MODELS, light_model, random_inputs

# Largest error relative to the output's range. Both sides compute in float32 and sum in different
# orders; measured errors are below 5e-6, and a wrong element shows above 1e-2
# (`test_random_weights_make_outputs_that_tell`).
TOLERANCE = 1e-4

NETWORKS = {
    "vgg_like": convolutional.vgg_like,
    "residual_net": convolutional.residual_net,
    # Channels that do not fill a vector, and an odd spatial size.
    "residual_net_narrow": lambda: convolutional.residual_net(27, 7),
    "mobilenet_v2": lambda: convolutional.mobilenet_v2(32, 0.25, 10),
    "mobilenet_v2_batch": lambda: convolutional.mobilenet_v2(32, 0.5, 10, batch=2),
    "unet_transpose": convolutional.unet,
    "unet_nearest": lambda: convolutional.unet(upsample="nearest"),
    "unet_linear": lambda: convolutional.unet(upsample="linear"),
    "vit_block": transformers.vit_block,
    # Numbers of tokens and heads that are not multiples of a vector.
    "vit_block_odd": lambda: transformers.vit_block(24, 8, 30, 3),
    "bert_block": transformers.bert_block,
    "bert_block_odd": lambda: transformers.bert_block(11, 40, 5),
}


def check_compiled(model: ModelProto, seed: int = 0) -> None:
    """Assert that every output of the compiled model is within `TOLERANCE`."""
    compiled = tcopt.compile(model)
    feeds = random_inputs(model, seed)
    actual = compiled.run(feeds)
    expected = run_reference(model, feeds)
    assert [spec.name for spec in compiled.outputs] == [o.name for o in model.graph.output]
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert np.abs(ours - theirs).max() <= TOLERANCE * np.ptp(theirs)


@pytest.mark.nightly(daily=["light_squeezenet"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.quick] if name == "light_squeezenet" else [])
        for name in LIGHT_MODELS
    ],
)
def test_light_models(name: str) -> None:
    check_compiled(light_model(name))
    # A compile leaves much garbage; it must be collected before the next one.
    gc.collect()


@pytest.mark.nightly(daily=["bert_block_odd"])
@pytest.mark.parametrize("name", NETWORKS)
def test_built_networks(name: str) -> None:
    check_compiled(NETWORKS[name]())


def test_results_do_not_depend_on_threads_or_runs() -> None:
    """Each element is computed by one thread in a fixed order."""
    model = convolutional.residual_net()
    compiled = tcopt.compile(model)
    feeds = random_inputs(model)
    (first,) = compiled.run(feeds)
    for threads in (1, 3, 2):
        compiled.threads = threads
        np.testing.assert_array_equal(compiled.run(feeds)[0], first)
