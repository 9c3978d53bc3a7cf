"""Schedule rules for devices that run thread blocks."""
