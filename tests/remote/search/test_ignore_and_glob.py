"""Ignore rules are git's and rg's, path patterns are Python's."""

from __future__ import annotations

import glob
import os
import subprocess
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from search_trees import needs_git, needs_rg, output, tree

from vaws_mcp.worker.engine.grep_emit import compile_pattern
from vaws_mcp.worker.engine.grep_pattern import Options
from vaws_mcp.worker.engine.grep_rg import Plan, argv
from vaws_mcp.worker.engine.patterns import expand_braces, path_regex
from vaws_mcp.worker.engine.walk import Trouble, Wanted, walk

_names = st.sampled_from(["a", "b", "ab", "a.o", "b.c", ".x", "foo", "a b", "[x]", "#n", "!n"])
_paths = st.lists(_names, min_size=1, max_size=4).map("/".join)
_pieces = st.sampled_from(
    ["a", "b", "ab", "*", "?", "*.o", "*.c", "a*", "?b", "[ab]", "[!a]", "[a-b]*", "foo", ".x", "\\#n", "**"]
)


def _line(negated: str, lead: str, parts: list[str], tail: str) -> str:
    return negated + lead + "/".join(parts) + tail


_lines = st.builds(
    _line,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(_pieces, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", "/**", "/*", " ", "  ", "\\ ", "\r"]),
)
_files = st.lists(_lines | st.sampled_from(["", "# note", "#n", "!", "/", "a b", "\\!n"]), max_size=5).map("\n".join)
_trees = st.tuples(st.lists(_paths, min_size=1, max_size=12), _files, st.dictionaries(_names, _files, max_size=2))


def ignoring_tree(made: tuple[list[str], str, dict[str, str]]) -> dict[bytes, bytes]:
    paths, top, below = made
    files: dict[bytes, bytes] = {}
    folders = {path[:index] for path in paths for index, char in enumerate(path) if char == "/"}
    for path in paths:
        if path not in folders:
            files[path.encode()] = b"a\n"
    for folder, rules in below.items():
        if folder in folders:
            files[folder.encode() + b"/.gitignore"] = rules.encode()
    files[b".gitignore"] = top.encode()
    return files


def walked(root: Path, wanted: Wanted) -> set[bytes]:
    trouble = Trouble()
    found = {path for path, _ in walk(os.fsencode(root), wanted, trouble, lambda: None)}
    assert trouble.count == 0
    return found


@needs_git
@settings(max_examples=60, deadline=None)
@given(_trees)
def test_what_is_left_out_is_what_git_leaves_out(made: tuple[list[str], str, dict[str, str]]) -> None:
    with tree(ignoring_tree(made)) as root:
        output("git", "init", "-q", cwd=root)
        listed = output("git", "-c", "core.excludesFile=/dev/null", "ls-files", "-coz", "--exclude-standard", cwd=root)
        assert walked(root, Wanted()) == set(listed.split(b"\0")[:-1])


@needs_git
@settings(max_examples=40, deadline=None)
@given(_trees)
def test_each_directory_of_a_repository_gives_its_part_of_the_whole(
    made: tuple[list[str], str, dict[str, str]],
) -> None:
    with tree(ignoring_tree(made)) as root:
        (root / ".git").mkdir()
        whole = walked(root, Wanted())
        for folder in {path.split(b"/")[0] for path in whole if b"/" in path}:
            part = {path[len(folder) + 1 :] for path in whole if path.startswith(folder + b"/")}
            assert walked(root / os.fsdecode(folder), Wanted()) == part


@needs_rg
@settings(max_examples=60, deadline=None)
@given(_trees, st.booleans(), st.booleans())
def test_what_is_left_out_is_what_rg_leaves_out(
    made: tuple[list[str], str, dict[str, str]], repository: bool, hidden: bool
) -> None:
    rules = "\n".join([made[1], *made[2].values()])
    # rg lets [!a] match a slash, drops all white space at the end of a rule, and takes a bare ! for everything.
    assume(
        "[!" not in rules and "\\ " not in rules and not any(line.strip(" /\r") == "!" for line in rules.split("\n"))
    )
    files = {name: content or b"a\n" for name, content in ignoring_tree(made).items()}
    with tree(files) as root:
        if repository:
            (root / ".git").mkdir()
        wanted = Wanted(hidden=hidden)
        words = argv("rg", Plan(compile_pattern("^", Options()), False, hidden, True, []))
        found = {path[2:] for path in output(*words, cwd=root).split(b"\0")[:-1]}
        assert {path for path in found if wanted.keeps(path)} == walked(root, wanted)


@settings(max_examples=60, deadline=None)
@given(st.lists(_paths, min_size=1, max_size=12), st.lists(_pieces, min_size=1, max_size=4).map("/".join))
def test_path_patterns_are_those_of_python(paths: list[str], pattern: str) -> None:
    assume("\\" not in pattern)
    files = ignoring_tree((paths, "", {}))
    with tree(files) as root:
        wanted = Wanted(respect_gitignore=False, include=path_regex(expand_braces(pattern.encode())))
        found = {os.fsdecode(path) for path in walked(root, wanted)}
        listed = glob.glob(pattern, root_dir=root, recursive=True, include_hidden=True)  # noqa: PTH207 - it is the reference
        assert found == {path for path in listed if (root / path).is_file()}


_words = st.recursive(
    st.sampled_from(["a", "b*", "c/d"]),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "{" + ",".join(parts) + "}")
        | st.lists(inner, min_size=2, max_size=2).map("".join)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(_words)
def test_braces_are_those_of_bash(pattern: str) -> None:
    ran = subprocess.run(["/bin/bash", "-fc", f"printf '%s\\n' {pattern}"], capture_output=True, check=True, timeout=10)
    assert expand_braces(pattern.encode()) == ran.stdout.splitlines()


def test_braces_that_mean_nothing_are_plain_characters() -> None:
    for pattern in (b"{}", b"{a}", b"{a", b"a}", b"{a,b", b"\\{a,b}"):
        assert expand_braces(pattern) == [pattern]


def test_a_repository_inside_another_follows_its_own_rules() -> None:
    files = {
        b".gitignore": b"*.o\n",
        b"in/.git/HEAD": b"",
        b"in/a.o": b"",
        b"in/.gitignore": b"/a.c\n",
        b"in/a.c": b"",
        b"b.o": b"",
    }
    with tree(files) as root:
        assert walked(root, Wanted()) == {b".gitignore", b"b.o", b"in/.gitignore", b"in/a.o"}
        (root / ".git").mkdir()
        assert walked(root, Wanted()) == {b".gitignore", b"in/.gitignore", b"in/a.o"}
