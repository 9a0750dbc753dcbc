"""``python -m vaws_mcp.sim STATE_DIR OPTIONS``: the process behind ``start_detached``. OPTIONS is a JSON object."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from vaws_mcp.sim.container import serve
from vaws_mcp.sim.options import SimError, SimOptions


def main() -> int:
    """Serve until told to stop; returns the exit status."""
    values: dict[str, Any] = json.loads(sys.argv[2])
    root = values.pop("root")
    options = SimOptions(root=Path(root) if root else None, **values)
    try:
        asyncio.run(serve(options, Path(sys.argv[1]), lambda report: print(json.dumps(report), flush=True)))
    except SimError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


sys.exit(main())
