"""Schedule rules for devices that run blocks of threads."""
