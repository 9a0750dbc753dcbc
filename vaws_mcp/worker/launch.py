"""The command line that starts a worker or a supervisor.

Not ``python -m``: that puts the working directory first in the module path, where any ``json.py`` would be imported
instead of the standard library's, and PYTHONPATH would reach every command.
"""

from __future__ import annotations

from typing import List

SHIPPED_NAME = "vaws_worker"
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from {}.__main__ import start; start(sys.argv[2:])"


def command_line(python: str, root: str, package: str = SHIPPED_NAME) -> List[str]:
    """Return the argument vector that serves a connection; ``supervise`` and a directory may follow.

    ``root`` is the directory that holds the package. The interpreter runs isolated (``-I -S``): the worker needs
    nothing but the standard library.
    """
    return [python, "-u", "-I", "-S", "-c", _BOOT.format(package), root]
