"""Names from a disk as text that any JSON reader takes."""


def shown_names(*names: str) -> tuple[tuple[str, ...], bool]:
    """Return names for a result, and whether they had to be escaped.

    Bytes that are no UTF-8 come as lone surrogates. If there are any, all names show them as ``\\xNN`` and a backslash
    as two, so that the bytes can be told again.
    """
    raw = [name.encode("utf-8", "surrogateescape") for name in names]
    try:
        return tuple(name.decode("utf-8") for name in raw), False
    except UnicodeDecodeError:
        return tuple(name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace") for name in raw), True
