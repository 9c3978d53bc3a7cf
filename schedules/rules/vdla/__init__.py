"""Schedule rules for VDLA, an accelerator with a matrix unit and explicitly managed memories."""
