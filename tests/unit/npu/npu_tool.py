"""A program called npu-smi that answers with given texts."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = """#!{python}
import pathlib, sys, time
folder = pathlib.Path({folder!r})
name = "_".join(sys.argv[1:])
with (folder / "calls").open("a") as calls:
    calls.write(name + "\\n")
if (folder / (name + ".hang")).exists():
    sys.stdout.write((folder / (name + ".hang")).read_text())
    sys.stdout.flush()
    time.sleep(600)
answer = folder / (name + ".txt")
sys.stdout.write(answer.read_text() if answer.exists() else "Command or option is not found.\\n")
complaint = folder / (name + ".err")
sys.stderr.write(complaint.read_text() if complaint.exists() else "")
"""


class Tool:
    """The program in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "npu-smi"
        self.path.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
        self.path.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}:/usr/bin:/bin"}

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []

    def answers(self, words: str, text: str) -> None:
        (self.folder / f"{words.replace(' ', '_')}.txt").write_text(text, encoding="utf-8")

    def complains(self, words: str, text: str) -> None:
        self.answers(words, "")
        (self.folder / f"{words.replace(' ', '_')}.err").write_text(text, encoding="utf-8")

    def hangs(self, words: str, after: str = "") -> None:
        (self.folder / f"{words.replace(' ', '_')}.hang").write_text(after, encoding="utf-8")
