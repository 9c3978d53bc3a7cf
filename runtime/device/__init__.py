"""Programs whose kernels run on a device of their own: what is launched, and on what."""
