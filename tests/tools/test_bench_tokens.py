"""`tcopt-bench --tokens` and the decoder that it times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from tcopt.frontends.onnx.building.decoder import DecoderShape, random_decoder
from tcopt.support.errors import InputError
from tcopt.tools import tcopt_bench
from tcopt.tools.benchmarking.tokens import measure_tokens
from tcopt.tools.execution.decoder import Decoder, DecoderNames

SMALL = DecoderShape(layers=1, width=32, heads=2, cached_heads=1, inner=32, words=40, context=32)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return random_decoder(SMALL)


@pytest.fixture(scope="module")
def decoder(model: onnx.ModelProto) -> Decoder:
    return Decoder(model, DecoderNames.of_model(model), context=32, chunk=4)


def test_both_runtimes_read_the_same_tokens(
    model: onnx.ModelProto, decoder: Decoder, tmp_path: Path
):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "decoder.onnx"
    onnx.save(model, path)
    own = {"threads": 1, "peers": ["onnxruntime"]}
    found = [*measure_tokens(str(path), decoder, 5, 3, **own)]
    assert [each.name for each in found] == ["tcopt", "onnxruntime"]
    # Sums of 32 products in f32 in another order.
    assert all(each.difference < 1e-4 for each in found)
    assert all(each.prompt > 0 and each.token > 0 for each in found)


def test_a_prompt_is_read_in_parts(decoder: Decoder):
    """Chunks of any length give the logits of the whole, and a reset starts again."""
    tokens = [3, 1, 4, 1, 5, 9, 2]
    decoder.reset()
    whole = decoder.read(tokens)
    decoder.reset()
    single = [decoder.read([token]) for token in tokens]
    # Sums of 32 products in f32 in another order.
    np.testing.assert_allclose(single[-1], whole, rtol=1e-4, atol=1e-4)
    assert decoder.length == 7
    with pytest.raises(InputError):
        decoder.read([])


def test_names_of_a_configuration():
    config = {
        "model": {
            "decoder": {
                "num_hidden_layers": 1,
                "inputs": {"input_ids": "ids", "past_key_names": "k%d", "past_value_names": "v%d"},
                "outputs": {"present_key_names": "nk%d", "present_value_names": "nv%d"},
            }
        }
    }
    names = DecoderNames.in_config(config)
    assert names.states == {"k0": "nk0", "v0": "nv0"}
    assert (names.ids, names.mask, names.logits) == ("ids", "attention_mask", "logits")


@pytest.mark.parametrize("tokens", ["5", "0,3", "a,b", "3,-1"])
def test_lengths_that_are_not_numbers(tokens: str, tmp_path: Path):
    assert tcopt_bench.main([str(tmp_path / "none.onnx"), "--tokens", tokens]) == 1


def test_other_models_are_refused(tmp_path: Path):
    path = tmp_path / "relu.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> m (float[n] x) => (float[n] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    assert tcopt_bench.main([str(path), "--tokens", "4,2"]) == 1
