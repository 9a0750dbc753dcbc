"""Machines: the entries of ``endpoints.toml``, and whether each of them is fit for work."""
