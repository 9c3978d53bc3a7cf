"""The CPU, the process and the linker that code is made for."""
