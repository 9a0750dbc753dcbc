"""``python -m vaws_mcp`` is the same as ``remote-dev``."""

import sys

from vaws_mcp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
