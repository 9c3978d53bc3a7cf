"""The exported architectures: modules, example inputs, dynamic dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torchvision import models as vision
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.efficientnet import MBConvConfig

from exports import modules

Exporters = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Architecture:
    """One module and how it is exported.

    Args:
        make: creates the module, with parameters drawn by torch.
        inputs: example inputs by name.
        exporters: `legacy` or `dynamo`, and the opset.
        dynamic: symbolic dimensions: names by input and axis.
        sizes: values of the symbolic dimensions for which it is run.
        below: upper bound of token ids.
        masks: inputs that are 1, and 0 at the end.
        rest: number of trailing inputs passed as variable arguments.
    """

    make: Callable[[], nn.Module]
    inputs: Mapping[str, Tensor]
    exporters: Exporters
    outputs: Sequence[str] = ("output",)
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    sizes: Sequence[Mapping[str, int]] = ({},)
    below: int = 0
    masks: Sequence[str] = ()
    rest: int = 0


def _image(side: int, batch: int = 1) -> dict[str, Tensor]:
    return {"image": torch.randn(batch, 3, side, side)}


def _ids(batch: int, length: int, below: int) -> Tensor:
    return torch.randint(0, below, (batch, length))


def _resnet() -> nn.Module:
    return vision.ResNet(vision.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10, width_per_group=16)


def _efficientnet() -> nn.Module:
    stages = [
        MBConvConfig(1, 3, 1, 16, 8, 1),
        MBConvConfig(4, 3, 2, 8, 16, 2),
        MBConvConfig(4, 5, 2, 16, 24, 1),
    ]
    return vision.EfficientNet(stages, dropout=0.2, num_classes=10, last_channel=64)


def _convnext() -> nn.Module:
    stages = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, 64, 1), CNBlockConfig(64, None, 1)]
    return vision.ConvNeXt(stages, num_classes=10)


def _swin() -> nn.Module:
    return vision.SwinTransformer(
        [4, 4], 16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], num_classes=10
    )


def _vit() -> nn.Module:
    return vision.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)


class _Bert(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=64,
        )
        self.inner = BertModel(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        result = self.inner(input_ids, attention_mask)
        return result.last_hidden_state, result.pooler_output


_BATCH = {"image": {0: "batch"}}
_BATCHES = ({"batch": 2}, {"batch": 1})
_SEQUENCES = ({"batch": 2, "length": 9}, {"batch": 1, "length": 6})
_PAST = [f"{part}{layer}" for layer in range(2) for part in ("key", "value")]

ARCHITECTURES: dict[str, Architecture] = {
    "resnet": Architecture(
        _resnet, _image(64), (("legacy", 13), ("dynamo", 20)), dynamic=_BATCH, sizes=_BATCHES
    ),
    "mobilenet_v2": Architecture(
        lambda: vision.MobileNetV2(num_classes=10, width_mult=0.25),
        _image(64),
        (("legacy", 13), ("dynamo", 18)),
    ),
    "mobilenet_v3": Architecture(
        partial(vision.mobilenet_v3_small, num_classes=10),
        _image(64),
        (("legacy", 14), ("dynamo", 20)),
    ),
    "efficientnet": Architecture(_efficientnet, _image(64), (("legacy", 17), ("dynamo", 18))),
    "convnext": Architecture(_convnext, _image(64), (("legacy", 17), ("dynamo", 20))),
    "unet": Architecture(
        modules.UNet,
        _image(32),
        (("legacy", 13), ("dynamo", 18)),
        dynamic={"image": {2: "height", 3: "width"}},
        sizes=({"height": 32, "width": 48},),
    ),
    "unet_bilinear": Architecture(
        partial(modules.UNet, upsample="bilinear"), _image(32), (("legacy", 17), ("dynamo", 23))
    ),
    "detector": Architecture(
        modules.Detector,
        _image(64),
        (("legacy", 16), ("dynamo", 20)),
        outputs=("boxes", "score", "label"),
    ),
    "vit": Architecture(
        _vit,
        _image(32),
        (("legacy", 14), ("dynamo", 18), ("dynamo", 23)),
        dynamic=_BATCH,
        sizes=_BATCHES,
    ),
    "swin": Architecture(_swin, _image(64), (("legacy", 17), ("dynamo", 20))),
    "bert": Architecture(
        _Bert,
        {"input_ids": _ids(2, 12, 100), "attention_mask": torch.ones(2, 12, dtype=torch.int64)},
        (("legacy", 14), ("dynamo", 18), ("dynamo", 23)),
        outputs=("states", "pooled"),
        dynamic={name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")},
        sizes=_SEQUENCES,
        below=100,
        masks=("attention_mask",),
    ),
    "gpt2": Architecture(
        modules.Gpt2,
        {"input_ids": _ids(2, 3, 64), **{name: torch.randn(2, 4, 5, 8) for name in _PAST}},
        (("legacy", 14), ("dynamo", 18), ("dynamo", 23)),
        outputs=("logits", *(f"new_{name}" for name in _PAST)),
        dynamic={
            "input_ids": {0: "batch", 1: "length"},
            **{name: {0: "batch", 2: "past"} for name in _PAST},
        },
        sizes=(
            {"batch": 1, "length": 4, "past": 2},
            {"batch": 1, "length": 1, "past": 6},
            {"batch": 1, "length": 1, "past": 7},
        ),
        below=64,
        rest=len(_PAST),
    ),
    "llama": Architecture(
        partial(modules.Llama, norm=modules.RmsNorm),
        {"input_ids": _ids(2, 12, 64)},
        (("legacy", 17), ("dynamo", 20)),
        dynamic={"input_ids": {0: "batch", 1: "length"}},
        sizes=_SEQUENCES,
        below=64,
    ),
    "llama_fused": Architecture(
        modules.Llama,
        {"input_ids": _ids(2, 12, 64)},
        (("dynamo", 23),),
        dynamic={"input_ids": {0: "batch", 1: "length"}},
        sizes=_SEQUENCES,
        below=64,
    ),
    "lstm": Architecture(
        partial(modules.Recurrent, "lstm"),
        {"input_ids": _ids(2, 6, 50)},
        (("legacy", 14), ("dynamo", 18)),
        outputs=("scores", "states"),
        dynamic={"input_ids": {0: "batch", 1: "length"}},
        sizes=_SEQUENCES,
        below=50,
    ),
    "gru": Architecture(
        partial(modules.Recurrent, "gru"),
        {"input_ids": _ids(2, 6, 50)},
        (("legacy", 14), ("dynamo", 18)),
        outputs=("scores", "states"),
        dynamic={"input_ids": {0: "batch", 1: "length"}},
        sizes=_SEQUENCES,
        below=50,
    ),
}
