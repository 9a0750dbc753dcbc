"""One benchmark: settings, the client's command, its results, and one launch of a service measured several times."""
