"""Trees, patterns and reference programs for the search tests."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import strategies as st

needs_rg = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed: apt-get install ripgrep")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")

_ATOMS = [
    "a",
    "b",
    "ab",
    "x",
    "k",
    "_",
    "1",
    " ",
    ".",
    "é",
    "中",
    "文",
    "\\.",
    "\\d",
    "\\w",
    "\\s",
    "\\D",
    "\\W",
    "\\S",
]
_SETS = [
    "[ab]",
    "[^a]",
    "[a-f0-9]",
    "[^a-z]",
    "[é中]",
    "[一-龥]",
    "[^é]",
    "[\\w-]",
    "[[:alpha:]]",
    "[]a]",
    "[^]a]",
    "\\t",
]
_EDGES = ["^", "$", "\\b", "\\B"]
_TIMES = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}", "{2,}", "{1,3}?"]


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    timed = st.tuples(inner, st.sampled_from(_TIMES)).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    either = st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")")
    return timed | either | st.lists(inner, min_size=1, max_size=3).map("".join)


_timed_atom = st.tuples(st.sampled_from([*_ATOMS, *_SETS]), st.sampled_from(_TIMES)).map(
    lambda pair: f"(?:{pair[0]}){pair[1]}" if len(pair[0]) > 1 and pair[0][0] not in "\\[" else "".join(pair)
)
patterns = st.recursive(_timed_atom | st.sampled_from(_EDGES), _joined, max_leaves=5)
texts = st.text("abxk_1 .éÉ中文AB\t\r\n\n", max_size=25).map(str.encode)
contents = st.lists(
    texts | st.sampled_from([b"\xff", b"\xe4\xb8", b"\n\n", b"\r\n", b"\0", b"ab", b"aab 1\n", b"\x80a\n"]), max_size=6
).map(b"".join)


@contextmanager
def tree(files: dict[bytes, bytes]) -> Generator[Path]:
    """Write files below a new directory."""
    with tempfile.TemporaryDirectory(prefix="search-") as folder:
        for name, content in files.items():
            path = Path(folder) / name.decode("utf-8", "surrogateescape")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield Path(folder)


def output(*argv: str | bytes, cwd: Path, codes: tuple[int, ...] = (0, 1)) -> bytes:
    """Run a reference program."""
    ran = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    assert ran.returncode in codes, (argv, ran.stderr)
    return ran.stdout
