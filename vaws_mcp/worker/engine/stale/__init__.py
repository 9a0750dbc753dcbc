"""Stale cleanup: engines and workers of vLLM whose server is gone, found by five tests and ended one by one."""
