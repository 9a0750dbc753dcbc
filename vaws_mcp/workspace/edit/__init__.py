"""``remote_edit``, ``remote_multi_edit`` and ``remote_apply_patch``: exact changes of files on an endpoint."""
