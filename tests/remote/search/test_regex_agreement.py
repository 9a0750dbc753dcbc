"""rg, GNU grep and our own matching give the same answers for every pattern of the subset."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from search_trees import contents, needs_rg, output, patterns, tree

from vaws_mcp.worker.engine import grep_rg
from vaws_mcp.worker.engine.grep_emit import Compiled, compile_pattern
from vaws_mcp.worker.engine.grep_jobs import Searcher
from vaws_mcp.worker.engine.grep_match import Matcher, from_json, line_count, load, to_json
from vaws_mcp.worker.engine.grep_pattern import Options
from vaws_mcp.worker.refusal import Refusal

many = st.lists(contents, min_size=1, max_size=8)


def ours(root: str, compiled: Compiled) -> dict[bytes, int]:
    matcher = Matcher(from_json(to_json(compiled)))
    found: dict[bytes, int] = {}
    for path in sorted(Path(root).iterdir()):
        name, buffer = os.fsencode(path.name), load(os.fsencode(path))
        count = sum(1 + line_count(buffer, span.start, span.end) for span in matcher.spans(buffer))
        assert bool(count) == matcher.matches(buffer)
        if count:
            found[name] = count
    return found


def of_rg(root: Path, compiled: Compiled, counting: bool) -> dict[bytes, int]:
    plan = grep_rg.Plan(compiled, counting, True, True, [])
    raw = output(*grep_rg.argv("rg", plan), cwd=root)
    if not counting:
        return {path[2:]: 1 for path in raw.split(b"\0")[:-1]}
    pairs = re.findall(rb"\./([^\0]+)\0(\d+)\n", raw)
    return {name: int(count) for name, count in pairs}


@needs_rg
@settings(max_examples=120, deadline=None)
@given(patterns, many, st.booleans())
def test_counts_of_lines_are_those_of_rg(pattern: str, files: list[bytes], ignore_case: bool) -> None:
    # rg 13 overlooks a line start that follows a word boundary, as in \b^.
    assume(not re.search(r"\\[bB].*\^", pattern))
    compiled = compile_pattern(pattern, Options(ignore_case=ignore_case))
    with tree({b"f%d" % index: content for index, content in enumerate(files)}) as root:
        assert ours(str(root), compiled) == of_rg(root, compiled, counting=True)


@needs_rg
@settings(max_examples=80, deadline=None)
@given(patterns, many, st.booleans())
def test_files_that_match_across_lines_are_those_of_rg(pattern: str, files: list[bytes], ignore_case: bool) -> None:
    assume(not re.search(r"\\[bB].*\^", pattern))
    compiled = compile_pattern(pattern, Options(ignore_case=ignore_case, multiline=True))
    # rg 13 overlooks the end of a last line without a line feed, but only with these options.
    ending = b"\n" if "$" in pattern else b""
    with tree({b"f%d" % index: content and content + ending for index, content in enumerate(files)}) as root:
        # With these options rg takes some binary files for text, so the product searches its findings again.
        binary = {b"f%d" % index for index, content in enumerate(files) if b"\0" in content}
        assert set(ours(str(root), compiled)) == set(of_rg(root, compiled, counting=False)) - binary


@settings(max_examples=80, deadline=None)
@given(patterns, many, st.booleans())
def test_the_prefilter_never_loses_a_file(pattern: str, files: list[bytes], ignore_case: bool) -> None:
    compiled = compile_pattern(pattern, Options(ignore_case=ignore_case))
    padded = {b"f%d" % index: content for index, content in enumerate([*files, *[b"."] * 8])}
    with tree(padded) as root:
        job = {"kind": "count", "root": str(root), "pattern": to_json(compiled)}
        body = b"".join(name + b"\0" for name in padded)
        here = os.getcwd()  # noqa: PTH109 - a searching process changes its directory
        try:
            plain = Searcher().answer({**job, "grep": None}, body)
            assert Searcher().answer({**job, "grep": "/usr/bin/grep"}, body) == plain
        finally:
            os.chdir(here)


@settings(max_examples=200, deadline=None)
@given(patterns, contents)
def test_lines_are_those_that_python_finds_one_by_one(pattern: str, content: bytes) -> None:
    compiled = compile_pattern(pattern, Options())
    single = re.compile(compiled.regex, re.MULTILINE)
    lines = content.split(b"\n")
    expected = [
        index for index, line in enumerate(lines[:-1] if lines[-1] == b"" else lines) if single.search(b"\n" + line, 1)
    ]
    found = [content.count(b"\n", 0, span.start) for span in Matcher(compiled).spans(content)]
    assert found == expected


@settings(max_examples=200, deadline=None)
@given(patterns, contents, st.booleans())
def test_a_match_contains_a_required_literal(pattern: str, content: bytes, ignore_case: bool) -> None:
    compiled = compile_pattern(pattern, Options(ignore_case=ignore_case, multiline=True))
    for found in re.compile(compiled.regex, re.MULTILINE | re.DOTALL).finditer(content):
        text = found.group().lower() if compiled.ignore_case else found.group()
        assert not compiled.literals or any(literal in text for literal in compiled.literals)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_characters="\0\n", exclude_categories=["Cs"]), min_size=1, max_size=8), contents)
def test_fixed_strings_are_found_as_they_are(text: str, content: bytes) -> None:
    compiled = compile_pattern(text, Options(fixed=True))
    padded = content + text.encode() + b"\nend"
    found = [padded[span.start : span.end] for span in Matcher(compiled).spans(padded)]
    assert found == [line for line in padded.split(b"\n") if text.encode() in line]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^.$", ["中", "a", "é"], ["", "ab", "中文"]),
        ("^中.文$", ["中é文", "中 文"], ["中文"]),
        ("a{,2}b", ["b", "aab"], ["a"]),
        ("interface{}", ["interface{}"], ["interface"]),
        ("[[:digit:]]+x", ["12x"], ["x"]),
        (r"\bnpu\b", ["an npu.", "npu"], ["npus", "_npu"]),
        ("(?i)NPU", ["npu", "nPu"], ["np"]),
        ("(foo|bar)baz", ["barbaz"], ["baz"]),
        (r"\x41\u00e9", ["Aé"], ["A"]),
        ("(?P<name>a)|b", ["a", "b"], ["c"]),
        ("foo$", ["foo"], ["foo\r"]),
        ("[^a]", ["é"], ["a", ""]),
    ],
)
def test_examples_of_the_subset(pattern: str, yes: list[str], no: list[str]) -> None:
    matcher = Matcher(compile_pattern(pattern, Options()))
    assert [text for text in yes if not matcher.matches(text.encode())] == []
    assert [text for text in no if matcher.matches(text.encode())] == []


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<!a)b", r"(a)\1", "a++", "(a", "a)", "[a", "*a", "a{3,2}", "\\", r"\p{L}"]
)
def test_patterns_outside_of_the_subset_are_refused_with_a_way_out(pattern: str) -> None:
    with pytest.raises(Refusal) as caught:
        compile_pattern(pattern, Options())
    assert caught.value.code == "bad_pattern"
    assert repr(pattern) in caught.value.message
    assert caught.value.hint is not None
    assert "fixed_strings" in caught.value.hint
