"""Handler of onnxruntime's Tokenizer, which splits text by regular expressions."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tcopt.dialects import graph
from tcopt.frontends.onnx.context.context import NodeContext
from tcopt.frontends.onnx.context.registry import handler
from tcopt.support.data.strings import TEXT
from tcopt.support.errors import InputError
from tcopt.support.host.host_functions.tokens import Tokenizer


@handler("com.microsoft.Tokenizer")
def tokenizer(ctx: NodeContext) -> SSAValue:
    """The tokens of each string along a new last axis, padded with `pad_value`."""
    x = ctx.input(0)
    shape = ctx.shape(x)
    ctx.check(ctx.is_text(x) and len(shape) in (1, 2), "data should be one or two axes of strings")
    settings = {
        "expression": ctx.get_string("tokenexp", ""),
        "separators": ctx.get_strings("separators") or [],
        "shortest": ctx.get_int("mincharnum"),
        "mark": ctx.get_bool("mark"),
    }
    try:
        Tokenizer.of(settings)
    except InputError as error:
        ctx.malformed(error.message, error.hint)
    width = 0
    if 0 not in shape:
        counts = ctx.host("token_counts", [x], shape, i64, **settings)
        longest = ctx.emit(graph.ReduceOp(counts, kind="max", axes=list(range(len(shape)))))
        (width,) = ctx.measured(longest, "the number of tokens")
    if not width:
        return ctx.array(np.empty((*shape, 0), TEXT))
    return ctx.host("tokens", [x], (*shape, width), pad=ctx.get_string("pad_value"), **settings)
