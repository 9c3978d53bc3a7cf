"""Registries of definitions, and the plugins that extend them."""
