"""Tasks: one piece of work with its own directory, found only through its context file."""
