"""Preset files and runtime profiles: their schema, where they are found, and what the profiles are used for."""
