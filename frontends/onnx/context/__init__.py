"""Context objects that are passed to operator handlers."""
