"""Modules run at any level, and passes checked by it."""
