"""Schedule rules for any accelerator whose facts describe a matrix unit."""
