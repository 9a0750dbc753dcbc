"""Reading and writing whole files of an endpoint."""
