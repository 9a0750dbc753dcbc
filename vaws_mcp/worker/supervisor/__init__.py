"""Executions: a process family with a supervisor of its own, which outlives the worker."""
