"""Edits that several loop passes share."""
