"""What a model file holds: tensors, types, inputs and outputs."""
