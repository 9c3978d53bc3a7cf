"""Operations of expressions that are numpy functions, by the name of the ufunc."""

_EQUAL_NAMES = (
    *("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc"),
    *("add", "fmod", "fmax", "fmin"),
)

NUMPY_KINDS = {name: name for name in _EQUAL_NAMES} | {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "divide": "div",
    "equal": "eq",
    "floor_divide": "floordiv",
    "greater": "gt",
    "greater_equal": "ge",
    "left_shift": "shl",
    "less": "lt",
    "less_equal": "le",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "remainder": "mod",
    "right_shift": "shr",
    "rint": "round",
    "subtract": "sub",
}
