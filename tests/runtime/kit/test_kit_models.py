"""Models as C libraries: programs without Python compute the same results."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import tcopt
from models import convolutional, transformers
from models.integer_products import byte_feeds, integer_products
from models.kits import Kit, KitError, needs_compiler, random_feeds
from tcopt.frontends.onnx.building.examples import find_example_model
from tcopt.frontends.onnx.building.random_weights import randomize_weights

pytestmark = needs_compiler


def parsed(text: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> m {text}')


NETWORKS = {
    "residual": lambda: convolutional.residual_net(20, 8),
    "bert": lambda: transformers.bert_block(9, 24, 2),
    "squeezenet": lambda: randomize_weights(onnx.load(find_example_model("light_squeezenet"))),
}


@pytest.mark.parametrize(
    "name", ["residual", "bert", pytest.param("squeezenet", marks=pytest.mark.nightly)]
)
def test_networks(name: str, tmp_path: Path):
    model = tcopt.compile(NETWORKS[name]())
    kit = Kit.of(model, tmp_path)
    kit.check(random_feeds(model))


def test_integers(tmp_path: Path):
    proto = integer_products(131)
    model = tcopt.compile(proto)
    Kit.of(model, tmp_path).check(byte_feeds(proto, 7))


LSTM = """(float[length, 2, 3] x) => (float[length, 1, 2, 4] y, float[1, 2, 4] h)
  <float[1, 16, 3] w = {WEIGHTS}, float[1, 16, 4] r = {STATES}> {
    y, h = LSTM<hidden_size = 4>(x, w, r)
  }"""


def test_recurrent_layers(tmp_path: Path):
    values = np.random.default_rng(2).uniform(-1, 1, 112)
    text = LSTM.replace("WEIGHTS", ", ".join(f"{v:.3f}" for v in values[:48]))
    text = text.replace("STATES", ", ".join(f"{v:.3f}" for v in values[48:]))
    model = tcopt.compile(parsed(text), dims={"length": 6})
    Kit.of(model, tmp_path).check(random_feeds(model))


def test_ranges(tmp_path: Path):
    text = """(float[batch, n] x, float[twice, 5] w, float[batch, m] z)
      => (float[batch, 5] y, float[batch, k] c) {
        a = Concat<axis = 1>(x, x)
        y = MatMul(a, w)
        c = Concat<axis = 1>(x, z)
      }"""
    proto = parsed(text)
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2 * n"
    model = tcopt.compile(proto, dims={"batch": (1, 9), "n": (4, 64, 4), "m": (0, 3)})
    kit = Kit.of(model, tmp_path)
    shapes = [((1, 4), (8, 5), (1, 0)), ((7, 20), (40, 5), (7, 3)), ((9, 64), (128, 5), (9, 1))]
    kit.check(*(random_feeds(model, each) for each in shapes))
    wrong = [
        ((10, 4), (8, 5), (10, 1)),
        ((1, 6), (12, 5), (1, 1)),
        ((1, 4), (16, 5), (1, 1)),
        ((1, 4), (8, 6), (1, 1)),
        ((2, 4), (8, 5), (1, 1)),
    ]
    for shapes in wrong:
        with pytest.raises(KitError) as caught:
            kit.run(random_feeds(model, shapes))
        assert caught.value.status == "INVALID_SHAPE"


def test_sizes_that_follow_from_others(tmp_path: Path):
    text = """(float[both] c, float[n] a, float[2, area] p, float[m, 3] b)
      => (float[both] y, float[2, area] z) {
        t = ReduceSum(a)
        y = Add(c, t)
        s = ReduceSum(b)
        z = Add(p, s)
      }"""
    proto = parsed(text)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n + m"
    proto.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "n * m"
    model = tcopt.compile(proto, dims={"n": (1, 40), "m": (2, 64, 2)})
    kit = Kit.of(model, tmp_path)
    kit.check(random_feeds(model, ((9,), (5,), (2, 20), (4, 3))))
    wrong = [
        ((8,), (5,), (2, 20), (4, 3)),
        ((9,), (5,), (2, 21), (4, 3)),
        ((8,), (5,), (2, 15), (3, 3)),
    ]
    for shapes in wrong:
        with pytest.raises(KitError) as caught:
            kit.run(random_feeds(model, shapes))
        assert caught.value.status == "INVALID_SHAPE"


def test_sizes_that_depend_on_data(tmp_path: Path):
    text = """(float[batch, 12] x, bool[12] c, float[batch, 3] z)
      => (float[batch, k] y, int64[j, 2] i) {
        a = Compress<axis = 1>(x, c)
        b = Concat<axis = 1>(a, z)
        y = Softmax(b)
        n = NonZero(c)
        m = Concat<axis = 0>(n, n)
        i = Transpose(m)
      }"""
    model = tcopt.compile(parsed(text), dims={"batch": (1, 9)})
    kit = Kit.of(model, tmp_path)
    masks = [np.arange(12) % 3 == 1, np.zeros(12, bool), np.ones(12, bool)]
    feeds = [random_feeds(model, ((n, 12), (12,), (n, 3))) for n in (1, 4, 9)]
    kit.check(*({**each, "c": mask} for each, mask in zip(feeds, masks, strict=True)))


BOXES = """(float[1, 20, 4] boxes, float[1, 2, 20] scores) => (int64[k, 3] y)
  <int64 most = {5}, float overlap = {0.5}, float least = {0.1}> {
    y = NonMaxSuppression(boxes, scores, most, overlap, least)
  }"""


def test_boxes(tmp_path: Path):
    model = tcopt.compile(parsed(BOXES))
    kit = Kit.of(model, tmp_path)
    generator = np.random.default_rng(1)
    boxes = np.sort(generator.uniform(0, 10, (1, 20, 4)).astype(np.float32), axis=2)
    scores = generator.uniform(0, 1, (1, 2, 20)).astype(np.float32)
    kit.check({"boxes": boxes, "scores": scores}, {"boxes": boxes, "scores": scores * 0})


def test_checks_of_data(tmp_path: Path):
    model = tcopt.compile(parsed("(float[5] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }"))
    kit = Kit.of(model, tmp_path)
    x = np.arange(5, dtype=np.float32)
    kit.check({"x": x, "i": np.array([1, 4])})
    with pytest.raises(KitError) as caught:
        kit.run({"x": x, "i": np.array([1, 5])})
    assert caught.value.status == "INVALID_DATA"


_STATE = """
#include <stdio.h>
#include <string.h>
#include MODEL_HEADER
#define OK(call) if ((call) != TCOPT_OK) return puts(tcopt_last_error())
#define HOLDS(condition) if (!(condition)) return printf("line %d\\n", __LINE__)
int main(void) {
  static float past[2 * 64 * 8], next[2 * 64 * 8], new[2 * 8] = {7};
  int64_t position[1] = {3};
  tcopt_model *model;
  tcopt_instance *instance;
  OK(tcopt_model_create(DESCRIPTOR(), NULL, &model));
  OK(tcopt_instance_create(model, NULL, &instance));
  HOLDS(tcopt_output(model, 0)->in_place_of == 0);
  OK(tcopt_set_input(instance, 0, past, NULL));
  OK(tcopt_set_input(instance, 1, new, NULL));
  OK(tcopt_set_input(instance, 2, position, NULL));
  OK(tcopt_set_output(instance, 0, next, sizeof next));
  OK(tcopt_run(instance));
  HOLDS(past[3 * 8] == 0 && next[3 * 8] == 7 && tcopt_output_data(instance, 0) == next);
  OK(tcopt_set_output(instance, 0, NULL, 0));
  OK(tcopt_run(instance));
  HOLDS(past[3 * 8] == 7 && tcopt_output_data(instance, 0) == past);
  HOLDS(!memcmp(past, next, sizeof past));
  return 0;
}
"""


def test_results_in_the_memory_of_inputs(tmp_path: Path):
    text = """(float[1, 2, 64, 8] past, float[1, 2, 1, 8] new, int64[1] position)
      => (float[1, 2, 64, 8] present) { present = TensorScatter<axis = 2>(past, new, position) }"""
    model = tcopt.compile(parsed(text, opset=24), donate={"past": "present"})
    program = Kit.of(model, tmp_path).build(_STATE, "state")
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


_SEEDS = """
#include <string.h>
#include MODEL_HEADER
int main(void) {
  static float y[3][100];
  tcopt_model *model;
  tcopt_instance *instance;
  tcopt_status status = tcopt_model_create(DESCRIPTOR(), NULL, &model);
  status |= tcopt_instance_create(model, NULL, &instance);
  for (int run = 0; run < 3; run++) {
    if (run > 0) tcopt_set_seed(instance, 5);
    status |= tcopt_set_output(instance, 0, y[run], sizeof *y);
    status |= tcopt_run(instance);
  }
  if (status != TCOPT_OK) return 1;
  return memcmp(y[0], y[1], sizeof *y) == 0 || memcmp(y[1], y[2], sizeof *y) != 0;
}
"""


def test_seeds(tmp_path: Path):
    model = tcopt.compile(parsed("() => (float[100] y) { y = RandomNormal<shape = [100]>() }"))
    program = Kit.of(model, tmp_path).build(_SEEDS, "seeds")
    subprocess.run([str(program)], check=True)


def test_sizes_that_are_values(tmp_path: Path):
    """A value beyond the range that the kit is compiled for is an error."""
    text = """(int64 limit) => (int64[count] y) {
      first = Constant<value = int64 {0}>()
      step = Constant<value = int64 {1}>()
      y = Range(first, limit, step)
    }"""
    kit = Kit.of(tcopt.compile(parsed(text), dims={"count": (0, 9)}), tmp_path)
    kit.check(*({"limit": np.array(limit)} for limit in (0, 5, 9)))
    with pytest.raises(KitError) as caught:
        kit.run({"limit": np.array(10)})
    assert caught.value.status == "INVALID_SHAPE"
