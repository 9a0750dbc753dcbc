"""Git trees as they stand on disk: their hash, saving and replacing them. Both ends of a parity run this code."""
