"""Plain files that survive any process: ids, atomic records, append-only events, the audit log."""
