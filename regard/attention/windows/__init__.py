# ruff: isort: skip_file
"""Windows: where a query may look, and with what factor; in the order of the catalogue."""

from regard.attention.windows.everywhere import Everywhere as Everywhere
from regard.attention.windows.local_monotonic import LocalMonotonic as LocalMonotonic
from regard.attention.windows.local_predictive import LocalPredictive as LocalPredictive
