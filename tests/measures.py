"""Compares the result of a random experiment with a threshold that was calibrated on twenty seeds.

    at_least(accuracy(model), 0.95, "accuracy", mean=0.991, sd=0.004)

Mean and standard deviation are those of twenty seeds, measured and written there by tests/spread.py. The
threshold must be three standard deviations away from the mean.
"""

import json
import os
import sys
from pathlib import Path


def at_least(measured, threshold, name, *, mean, sd):
    """Require the measured value to be at least the threshold."""
    _hold(float(measured), threshold, name, "at least", 1, mean, sd)


def at_most(measured, threshold, name, *, mean, sd):
    """Require the measured value to be at most the threshold."""
    _hold(float(measured), threshold, name, "at most", -1, mean, sd)


def _hold(measured, threshold, name, sense, sign, mean, sd):
    record = os.environ.get("REGARD_RECORD_MEASURES")
    if record:  # record every value of the test, also after one that fails
        called = sys._getframe(2)
        test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        place = {"file": test.partition("::")[0], "line": called.f_lineno}
        row = {
            "test": test,
            "name": name,
            "sense": sense,
            "threshold": threshold,
            "measured": measured,
            **place,
        }
        with Path(record).open("a") as file:
            file.write(json.dumps(row) + "\n")
        return
    assert sign * (mean - threshold) >= 3 * sd, f"{name}: {threshold} is within 3 sd of {mean} ± {sd}"
    assert sign * (measured - threshold) >= 0, f"{name} is {measured:.4f}; expected {sense} {threshold}"
