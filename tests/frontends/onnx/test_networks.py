"""Whole networks: the nine light models and those of the builders, against onnxruntime."""

import numpy as np
import pytest
from onnx import ModelProto

from models import convolutional, transformers
from models.checks import check_model, run_reference
from models.light_models import LIGHT_MODELS, light_model, random_inputs
from tcopt.dialects.graph.core.types import shape_of
from tcopt.frontends.onnx import find_example_model, import_model

NETWORKS = {
    "vgg_like": convolutional.vgg_like,
    "residual_net": convolutional.residual_net,
    "mobilenet_v2": lambda: convolutional.mobilenet_v2(32, 0.25, 10),
    "unet_transpose": convolutional.unet,
    "unet_nearest": lambda: convolutional.unet(upsample="nearest"),
    "unet_linear": lambda: convolutional.unet(upsample="linear"),
    "vit_block": transformers.vit_block,
    "bert_block": transformers.bert_block,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_built_networks(name: str):
    model: ModelProto = NETWORKS[name]()
    check_model(model, random_inputs(model), tolerance=1e-4)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["light_squeezenet", "light_resnet50", "light_shufflenet"])
def test_light_models_compute_the_same(name: str):
    model = light_model(name)
    check_model(model, random_inputs(model), tolerance=1e-4)


@pytest.mark.nightly(every=3)
@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_every_light_model_imports(name: str):
    # The files are unmodified: their weights are made by ConstantOfShape and stay literals.
    module = import_model(find_example_model(name))
    module.verify()
    (function,) = module.ops
    (result,) = function.regions[0].block.last_op.operands
    spatial = (1, 1) if name in ("light_densenet121", "light_squeezenet") else ()
    assert shape_of(result) == (1, 1000, *spatial)


@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_random_weights_make_outputs_that_tell(name: str):
    model = light_model(name)
    first, second = (run_reference(model, random_inputs(model, seed))[0] for seed in (0, 1))
    assert np.ptp(first) > 0.001
    # A hundred times the tolerance of a comparison.
    assert np.abs(first - second).max() > 0.01 * np.ptp(first)


def test_random_weights_follow_the_seed():
    first, again, other = (light_model("light_squeezenet", seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
