"""The ``job_*`` operations: commands that go on without the call that started them."""
