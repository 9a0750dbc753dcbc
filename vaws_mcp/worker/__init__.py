"""The code that runs on the endpoint: Python 3.8 or newer, standard library only."""
