"""Fails while it is loaded."""

import math

math.no_such_function()
