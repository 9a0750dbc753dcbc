"""Managed executions, the laptop half: recorded before they are submitted, found again from any process."""
