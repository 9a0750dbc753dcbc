"""Moving files and trees. The same code runs at both ends: one sends, the other receives and publishes."""
