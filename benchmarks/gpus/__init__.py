"""Measurements on GPUs: cases, compilers and peers, roofs, saved rows, and tables of them."""
