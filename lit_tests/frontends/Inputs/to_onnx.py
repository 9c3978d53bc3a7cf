"""Write ONNX text as a binary model: `to_onnx.py TEXT MODEL`. `//` starts a comment."""

import sys
from pathlib import Path

import onnx

source, target = map(Path, sys.argv[1:])
lines = [line for line in source.read_text().splitlines() if not line.startswith("//")]
onnx.save(onnx.parser.parse_model("\n".join(lines)), target)
