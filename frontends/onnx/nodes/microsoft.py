"""Schemas of onnxruntime's own operators in saved models, written by its quantiser, its optimiser
and by exporters.
"""

from __future__ import annotations

from tcopt.frontends.onnx.nodes.contrib_schema import (
    FLOAT,
    FLOATS,
    INT,
    INTS,
    REQUIRED,
    STRING,
    STRINGS,
    Attributes,
    ContribSchema,
    contrib_schema,
)

MICROSOFT = "com.microsoft"

_WINDOW: Attributes = {
    "auto_pad": (STRING, b"NOTSET"),
    "kernel_shape": (INTS, None),
    "pads": (INTS, None),
    "strides": (INTS, None),
}
_LAST: Attributes = {"channels_last": (INT, 0)}
_BLOCKWISE: Attributes = {
    "K": (INT, REQUIRED),
    "N": (INT, REQUIRED),
    "bits": (INT, 4),
    "block_size": (INT, REQUIRED),
    "accuracy_level": (INT, 0),
}
_GATHER_BLOCKWISE: Attributes = {
    "gather_axis": (INT, 0),
    "quantize_axis": (INT, 1),
    "block_size": (INT, 128),
    "bits": (INT, 4),
}
_LSTM: Attributes = {
    "activation_alpha": (FLOATS, None),
    "activation_beta": (FLOATS, None),
    "activations": (STRINGS, None),
    "clip": (FLOAT, None),
    "direction": (STRING, b"forward"),
    "hidden_size": (INT, None),
    "input_forget": (INT, 0),
}
_FOURIER: Attributes = {
    "normalized": (INT, 0),
    "onesided": (INT, 1),
    "signal_ndim": (INT, 1),
}
_MANY = 1 << 30
_QUANTISED = (
    contrib_schema("QuantizeLinear", 2, 3, {"axis": (INT, 1), "block_size": (INT, 0)}),
    contrib_schema("DequantizeLinear", 2, 3, {"axis": (INT, 1), "block_size": (INT, 0)}),
    contrib_schema("QLinearAdd", 7, 8),
    contrib_schema("QLinearMul", 7, 8),
    contrib_schema("QLinearWhere", 9, 9),
    contrib_schema("QLinearSigmoid", 4, 5),
    contrib_schema("QLinearLeakyRelu", 4, 5, {"alpha": (FLOAT, 0.01)}),
    contrib_schema("QLinearGlobalAveragePool", 4, 5, _LAST),
    contrib_schema(
        "QLinearAveragePool",
        4,
        5,
        {**_WINDOW, **_LAST, "ceil_mode": (INT, 0), "count_include_pad": (INT, 0)},
    ),
    contrib_schema("QLinearSoftmax", 4, 5, {"axis": (INT, -1), "opset": (INT, REQUIRED)}),
    contrib_schema(
        "QLinearReduceMean", 4, 5, {"axes": (INTS, REQUIRED), "keepdims": (INT, REQUIRED)}
    ),
    contrib_schema("QLinearConcat", 5, _MANY, {"axis": (INT, REQUIRED)}),
    contrib_schema(
        "QLinearConv",
        8,
        9,
        {**_WINDOW, **_LAST, "dilations": (INTS, None), "group": (INT, 1)},
    ),
    contrib_schema("QGemm", 6, 9, {"alpha": (FLOAT, 1.0), "transA": (INT, 0), "transB": (INT, 0)}),
    contrib_schema("DynamicQuantizeMatMul", 3, 5),
    contrib_schema("DynamicQuantizeLSTM", 12, 12, _LSTM, (0, 3)),
    contrib_schema("MatMulIntegerToFloat", 4, 7),
    contrib_schema("MatMulNBits", 3, 6, _BLOCKWISE),
    contrib_schema("GatherBlockQuantized", 3, 4, _GATHER_BLOCKWISE),
)


_EPSILON: Attributes = {"epsilon": (FLOAT, 1e-12)}
_GEMM: Attributes = {"alpha": (FLOAT, 1.0), "transA": (INT, 0), "transB": (INT, 0)}
_BATCHED: Attributes = {**_GEMM, "transBatchA": (INT, 0), "transBatchB": (INT, 0)}
_ACTIVATION: Attributes = {
    "activation_alpha": (FLOAT, None),
    "activation_beta": (FLOAT, None),
    "activation_gamma": (FLOAT, None),
}
_FUSED_CONV: Attributes = {
    **_WINDOW,
    "dilations": (INTS, None),
    "group": (INT, 1),
    "activation": (STRING, b""),
    "activation_params": (FLOATS, None),
}
_GROUP_NORM: Attributes = {
    "activation": (INT, REQUIRED),
    "channels_last": (INT, 1),
    "epsilon": (FLOAT, 1e-5),
    "groups": (INT, REQUIRED),
}
_FUSED = (
    contrib_schema("FusedMatMul", 2, 2, _BATCHED),
    contrib_schema("TransposeMatMul", 2, 2, _GEMM),
    contrib_schema(
        "FusedMatMulActivation",
        2,
        2,
        {
            **_BATCHED,
            **_ACTIVATION,
            "activation": (STRING, REQUIRED),
            "activation_axis": (INT, None),
        },
    ),
    contrib_schema(
        "FusedGemm",
        2,
        3,
        {**_GEMM, **_ACTIVATION, "beta": (FLOAT, 1.0), "activation": (STRING, b"")},
    ),
    contrib_schema("GemmFastGelu", 2, 3),
    contrib_schema("FusedConv", 2, 4, _FUSED_CONV),
    contrib_schema("NhwcFusedConv", 2, 4, _FUSED_CONV),
    contrib_schema("Gelu", 1, 1),
    contrib_schema("FastGelu", 1, 2),
    contrib_schema("BiasGelu", 2, 2),
    contrib_schema("QuickGelu", 1, 1, {"alpha": (FLOAT, 1.702)}),
    contrib_schema("BiasSplitGelu", 2, 2),
    contrib_schema("BiasAdd", 3, 3),
    contrib_schema("BiasSoftmax", 2, 2, {"axis": (INT, 1), "is_inner_broadcast": (INT, REQUIRED)}),
    contrib_schema("SkipLayerNormalization", 3, 5, _EPSILON, (1, 4)),
    contrib_schema("SkipSimplifiedLayerNormalization", 3, 4, _EPSILON, (1, 4)),
    contrib_schema(
        "EmbedLayerNormalization", 7, 9, {**_EPSILON, "mask_index_type": (INT, 0)}, (1, 3)
    ),
    contrib_schema("QEmbedLayerNormalization", 13, 18, _EPSILON, (1, 2)),
    contrib_schema("GroupNorm", 3, 3, _GROUP_NORM),
    contrib_schema("SkipGroupNorm", 4, 5, _GROUP_NORM, (1, 2)),
)
_ATTENTION: Attributes = {
    "mask_filter_value": (FLOAT, None),
    "num_heads": (INT, REQUIRED),
    "scale": (FLOAT, None),
    "unidirectional": (INT, 0),
}
_ROTARY: Attributes = {
    "interleaved": (INT, 0),
    "is_packed_batching": (INT, 0),
    "num_heads": (INT, 0),
    "rotary_embedding_dim": (INT, 0),
    "scale": (FLOAT, 1.0),
}
_GROUPED: Attributes = {
    "causal": (INT, 1),
    "do_rotary": (INT, 0),
    "k_quant_type": (STRING, b"NONE"),
    "kv_cache_bit_width": (INT, 0),
    "kv_num_heads": (INT, REQUIRED),
    "local_window_size": (INT, -1),
    "num_heads": (INT, REQUIRED),
    "qk_norm_epsilon": (FLOAT, 1e-6),
    "qk_output": (INT, 0),
    "rotary_interleaved": (INT, 0),
    "scale": (FLOAT, None),
    "sliding_window_cache": (INT, 0),
    "smooth_softmax": (INT, -1),
    "softcap": (FLOAT, 0.0),
    "v_quant_type": (STRING, b"NONE"),
}
_ATTENTIONS = (
    contrib_schema(
        "Attention",
        2,
        7,
        {
            **_ATTENTION,
            "do_rotary": (INT, 0),
            "past_present_share_buffer": (INT, 0),
            "qkv_hidden_sizes": (INTS, None),
            "rotary_embedding_dim": (INT, 0),
        },
        (1, 2),
    ),
    contrib_schema(
        "QAttention",
        5,
        9,
        {**_ATTENTION, "do_rotary": (INT, 0), "past_present_share_buffer": (INT, 0)},
        (1, 2),
    ),
    contrib_schema("MultiHeadAttention", 1, 10, _ATTENTION, (1, 4)),
    contrib_schema("RotaryEmbedding", 4, 4, _ROTARY),
    contrib_schema("GroupQueryAttention", 7, 16, _GROUPED, (1, 4)),
)
_CONTRIBUTED = (
    contrib_schema("BiasDropout", 2, 5, {"seed": (INT, 0)}, (1, 2)),
    contrib_schema("CDist", 2, 2, {"metric": (STRING, b"sqeuclidean")}),
    contrib_schema(
        "CropAndResize",
        4,
        4,
        {"extrapolation_value": (FLOAT, 0.0), "mode": (STRING, b"bilinear")},
    ),
    contrib_schema("ExpandDims", 2, 2),
    contrib_schema("GatherND", 2, 2),
    contrib_schema(
        "GridSample",
        2,
        2,
        {
            "align_corners": (INT, 0),
            "mode": (STRING, b"bilinear"),
            "padding_mode": (STRING, b"zeros"),
        },
    ),
    contrib_schema("Inverse", 1, 1),
    contrib_schema("Irfft", 1, 1, _FOURIER),
    contrib_schema(
        "NhwcMaxPool",
        1,
        1,
        {**_WINDOW, "ceil_mode": (INT, 0), "dilations": (INTS, None)},
    ),
    contrib_schema("Pad", 2, 3, {"mode": (STRING, b"constant")}),
    contrib_schema("Range", 2, 3),
    contrib_schema("Rfft", 1, 1, _FOURIER),
    contrib_schema(
        "Tokenizer",
        1,
        1,
        {
            "mark": (INT, REQUIRED),
            "mincharnum": (INT, REQUIRED),
            "pad_value": (STRING, REQUIRED),
            "separators": (STRINGS, None),
            "tokenexp": (STRING, None),
        },
        takes_texts=True,
    ),
    contrib_schema("Trilu", 1, 2, {"upper": (INT, 1)}),
    contrib_schema(
        "UnfoldTensor", 1, 1, {"dim": (INT, -1), "size": (INT, REQUIRED), "step": (INT, 1)}
    ),
    contrib_schema("Unique", 1, 1, {}, (3, 3)),
)
"""onnxruntime operators that exporters write for operations that ONNX lacks or lacked."""

_EXPERIMENTAL = (
    contrib_schema("Affine", 1, 1, {"alpha": (FLOAT, 1.0), "beta": (FLOAT, 0.0)}),
    contrib_schema("Crop", 1, 1, {"border": (INTS, REQUIRED), "scale": (INTS, None)}),
    contrib_schema("ImageScaler", 1, 1, {"bias": (FLOATS, None), "scale": (FLOAT, 1.0)}),
    contrib_schema(
        "ParametricSoftplus", 1, 1, {"alpha": (FLOAT, REQUIRED), "beta": (FLOAT, REQUIRED)}
    ),
    contrib_schema("Scale", 1, 1, {"scale": (FLOAT, 1.0)}),
    contrib_schema("ScaledTanh", 1, 1, {"alpha": (FLOAT, REQUIRED), "beta": (FLOAT, REQUIRED)}),
    contrib_schema("ThresholdedRelu", 1, 1, {"alpha": (FLOAT, 1.0)}),
)
"""Experimental operators of ONNX's first opsets, which onnxruntime supports at any opset."""

_NORM: Attributes = {"axis": (INT, -1), "epsilon": (FLOAT, 1e-5), "stash_type": (INT, 1)}
_STANDARD = (
    contrib_schema("LayerNormalization", 2, 3, _NORM, (1, 3)),
    contrib_schema("SimplifiedLayerNormalization", 2, 2, _NORM, (1, 2)),
)
"""Operators that onnxruntime's optimiser writes in ONNX's own domain, at any opset."""

_BY_DOMAIN = {
    MICROSOFT: {
        schema.op_type: schema for schema in (*_QUANTISED, *_FUSED, *_ATTENTIONS, *_CONTRIBUTED)
    },
    "": {schema.op_type: schema for schema in (*_STANDARD, *_EXPERIMENTAL)},
}


def find_microsoft_schema(domain: str, op_type: str) -> ContribSchema | None:
    """Return the schema of an onnxruntime operator; None if there is none.

    Args:
        domain: "" for operators in ONNX's own domain that ONNX lacks, possibly only at this opset.
    """
    return _BY_DOMAIN.get(domain, {}).get(op_type)
