"""Whole models: the light models of the onnx package, and those built in `models`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial

import onnx
from onnx import ModelProto

import zoo
from case import Case
from tcopt.frontends.onnx.building.examples import example_models, find_example_model
from tcopt.frontends.onnx.building.random_weights import randomize_weights
from zoo import resnet18


def _light(name: str) -> ModelProto:
    return randomize_weights(onnx.load(str(find_example_model(name))), 0)


def _built() -> list[Case]:
    cases: list[Case] = []
    for found in pkgutil.iter_modules(zoo.__path__):
        module = importlib.import_module(f"zoo.{found.name}")
        if hasattr(module, "build"):
            cases.append(Case(found.name, module.build, module.__doc__.splitlines()[0]))
    return cases


CASES = [
    *(
        Case(name.removeprefix("light_"), partial(_light, name), "of the onnx package")
        for name in example_models()
    ),
    *_built(),
    Case("resnet18_strict", resnet18.build, "ResNet-18 at accuracy strict", {"accuracy": "strict"}),
]
