"""Rules about the source text itself."""

from __future__ import annotations

import ast
import getpass
import re
import sys
from pathlib import Path

import pytest

import vaws_mcp

PACKAGE = Path(vaws_mcp.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
WORKER = [path for path in MODULES if path.is_relative_to(PACKAGE / "worker")]
PLACES = re.compile(r"/(?:home|Users|work|mnt|srv)/|[A-Z]:\\")


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", WORKER, ids=name_of)
def test_the_worker_is_python_3_8_and_needs_only_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            imported.add(node.module)
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def test_the_bootstrap_says_that_a_python_is_too_old_before_it_needs_a_new_one() -> None:
    from vaws_mcp.endpoint.archive import BOOTSTRAP

    tree = ast.parse(BOOTSTRAP)
    gate = next(node.lineno for node in tree.body if isinstance(node, ast.If) and "version_info" in ast.dump(node.test))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno < gate]
    assert [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names] == ["os", "sys"]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_knows_no_place_of_any_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not PLACES.findall(text)
    if getpass.getuser() != "root":  # every container has a root
        assert f"{Path.home()}/" not in text


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
