"""What the endpoint says about itself, read and parsed; imported by both sides of the connection."""
