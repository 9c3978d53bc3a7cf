"""Programs of the accelerator as 128-bit instructions, and a simulator of the machine."""
