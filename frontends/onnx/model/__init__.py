"""Contents of model files: tensors, types, inputs and outputs."""
