"""Faster or stricter forms of xDSL's operations on IR."""
