"""Runtime for accelerators: devices, their memory, and the launches and copies of a run."""
