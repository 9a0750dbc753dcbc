"""The worker as an archive, and the small program that unpacks and starts it."""

import functools
import gzip
import hashlib
import io
import shlex
import tarfile
from pathlib import Path

PACKAGE = "vaws_worker"

# Runs on any Python from 3.4 on, since it must be able to say that a Python is too old. It prints one line
# ("\0VAWS-BOOT <state> <python version>"), reads the archive when it said "need", and becomes the worker in the same
# process.
BOOTSTRAP = r"""
import os, sys
sha, size = sys.argv[1], int(sys.argv[2])
out = os.fdopen(os.dup(1), "wb")
def say(state):
    out.write(("\0VAWS-BOOT %s %d.%d.%d\n" % ((state,) + tuple(sys.version_info[:3]))).encode())
    out.flush()
if sys.version_info < (3, 8):
    say("old")
    sys.exit(0)
base = os.path.join(os.path.expanduser("~"), ".vaws")
home = os.path.join(base, "worker-" + sha)
try:
    os.utime(os.path.join(home, "complete"))
except OSError:
    pass
if not os.path.exists(os.path.join(home, "complete")):
    say("need")
    import compileall, io, shutil, tarfile, tempfile
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            sys.exit(1)
        data += more
    os.makedirs(base, mode=0o700, exist_ok=True)
    part = tempfile.mkdtemp(prefix="worker-unpack-", dir=base)
    tarfile.open(fileobj=io.BytesIO(data)).extractall(part)
    compileall.compile_dir(part, quiet=2, ddir=home)
    open(os.path.join(part, "complete"), "w").close()
    try:
        os.rename(part, home)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
say("start")
out.close()
sys.path.insert(0, home)
sys.argv = [os.path.join(home, "vaws_worker")]
os.environ["VAWS_WORKER_HOME"] = home
from vaws_worker.__main__ import start
start([])
"""

_SHELL = """for p in {candidates}; do
p=$(command -v "$p" 2>/dev/null) && [ -x "$p" ] || continue
exec "$p" -I -S -u -c "$0" {sha} {size}
done
printf '\\000VAWS-BOOT none -\\n'"""

PYTHONS = ("python3", "/usr/bin/python3", "/usr/local/bin/python3")
NEWER_PYTHONS = ("python3.13", "python3.12", "python3.11", "python3.10", "python3.9", "python3.8")


@functools.cache
def worker_archive() -> tuple[str, bytes]:
    """Return (first 16 hex digits of the SHA-256 of the sources, tar.gz bytes) of the worker package."""
    root = Path(__file__).parents[1] / "worker"
    digest = hashlib.sha256()
    buffer = io.BytesIO()
    # The time in the header would make the same sources give other bytes.
    packed = gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0)
    with packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(root.rglob("*.py")):
            data = path.read_bytes()
            name = f"{PACKAGE}/{path.relative_to(root).as_posix()}"
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(data))
    return digest.hexdigest()[:16], buffer.getvalue()


def start_argv(pythons: tuple[str, ...]) -> list[str]:
    """Return the argument vector that starts the worker on an endpoint that has any POSIX shell.

    ``pythons`` are interpreters to look for, the first one found is used.
    """
    sha, data = worker_archive()
    names = " ".join(shlex.quote(name) for name in pythons)
    return ["/bin/sh", "-c", _SHELL.format(candidates=names, sha=sha, size=len(data)), BOOTSTRAP]
