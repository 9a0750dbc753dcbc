"""``remote_ls``, ``remote_glob`` and ``remote_grep``."""
