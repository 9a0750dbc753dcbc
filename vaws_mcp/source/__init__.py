"""Git trees on the endpoint: resolving refs, checking them out, restoring what was there."""
