"""Comparing git states: the order of launches, what is kept of each, and the differences."""
