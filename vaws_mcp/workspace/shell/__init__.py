"""``remote_bash``: a command that ends, or becomes a job."""
