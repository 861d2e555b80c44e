"""Exports trained models to the formats of other engines, and reads them back for translation."""
