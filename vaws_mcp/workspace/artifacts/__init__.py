"""Files and trees between this machine and an endpoint."""
