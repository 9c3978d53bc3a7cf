"""The CPU, process and linker that code is generated for."""
