"""What every room shares: operations, the result envelope, failures, progress, redaction and plain schemas."""
