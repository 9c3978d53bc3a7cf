"""Choices for several cases at once."""

from tcopt.support.arithmetic.regret import least_regret


def test_a_choice_has_the_lowest_maximum_ratio_to_the_best_of_each_case():
    costs = {"small": [1.0, 40.0], "middle": [1.5, 15.0], "large": [9.0, 10.0]}
    assert least_regret(costs) == "middle"
    assert least_regret({name: values[:1] for name, values in costs.items()}) == "small"
    assert least_regret({name: values[1:] for name, values in costs.items()}) == "large"


def test_the_first_of_equal_choices_wins():
    assert least_regret({"a": [2.0, 3.0], "b": [3.0, 2.0], "c": [2.0, 3.0]}) == "a"
