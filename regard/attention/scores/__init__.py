# ruff: isort: skip_file
"""Scores: e[t, s] = score(q_t, k_s), one equation per file; in the order of the catalogue."""

from regard.attention.scores.dot import DotScore as DotScore
from regard.attention.scores.general import GeneralScore as GeneralScore
from regard.attention.scores.additive import AdditiveScore as AdditiveScore
from regard.attention.scores.rectified import RectifiedScore as RectifiedScore
from regard.attention.scores.cosine import CosineScore as CosineScore
from regard.attention.scores.location import LocationScore as LocationScore
from regard.attention.scores.location_aware import LocationAwareScore as LocationAwareScore
from regard.attention.scores.coverage import CoverageScore as CoverageScore
from regard.attention.scores.feedforward import FeedForwardScore as FeedForwardScore
