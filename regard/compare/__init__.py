"""Comparing variants: trainings side by side, what each measured, tables and reports."""
