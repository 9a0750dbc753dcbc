"""From a name and arguments to an answer: validation, runs, the envelope and the audit line."""
