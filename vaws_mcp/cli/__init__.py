"""The command line: parsing, tables and a progress bar. No logic."""
