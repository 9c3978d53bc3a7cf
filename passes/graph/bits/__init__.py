"""Bit-serial and table-lookup forms of contractions with operands of few bits."""
