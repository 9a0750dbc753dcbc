"""The ``remote_*`` operations: shell, files and facts of an endpoint."""
