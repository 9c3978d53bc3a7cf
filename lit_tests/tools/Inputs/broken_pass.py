"""A module that fails on import."""

import math

math.no_such_function()
