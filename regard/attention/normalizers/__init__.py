# ruff: isort: skip_file
"""Normalizers: from scores to weights; rows live on the simplex. In the order of the catalogue."""

from regard.attention.normalizers.softmax import Softmax as Softmax
from regard.attention.normalizers.sparsemax import Sparsemax as Sparsemax
from regard.attention.normalizers.hard import Hard as Hard
from regard.attention.normalizers.hard import StraightThrough as StraightThrough
from regard.attention.normalizers.gumbel import GumbelSoftmax as GumbelSoftmax
from regard.attention.normalizers.mean import Mean as Mean
from regard.attention.normalizers.divide_by_length import DivideByLength as DivideByLength
