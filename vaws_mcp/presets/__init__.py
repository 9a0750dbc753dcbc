"""Named files that ship with the package or lie beside it: schema, loading, and the priority of their fields."""
