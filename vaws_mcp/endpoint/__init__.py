"""Reaching an endpoint: resolution, SSH, the worker channel and what can be asked over it."""
