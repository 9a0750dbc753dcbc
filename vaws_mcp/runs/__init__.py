"""Runs: long work in a process of its own that outlives whoever started it."""
