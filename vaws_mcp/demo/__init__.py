"""The demonstration: a client of our own server, as any coding agent would be one."""
