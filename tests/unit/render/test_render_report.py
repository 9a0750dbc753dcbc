"""Reports and figures: complete, self-contained, and deaf to what labels say."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaws_mcp.render.figures import DotChart, DotGroup, DotRow, Figure, dot_chart
from vaws_mcp.render.report import (
    NO_POLICY,
    SIMULATED_NOTE,
    ComparisonReport,
    Delta,
    Fact,
    Setting,
    StateLine,
    headline,
    report_html,
    report_markdown,
    write_report,
)
from vaws_mcp.render.tables import Column, Table

HOSTILE = (
    "<img src=x onerror=alert(1)>\"'</svg><script>alert(1)</script>{{7*7}}|`$\\frac$\x1b[31m\n# \ud800\u202e#010101"
)
DELTAS = [Delta("candidate", "Mean TPOT", 9.84), Delta("candidate", "Output throughput", -8.9)]
ALLOWED_TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2", "p", "strong", "ul",
    "li", "span", "b", "div", "table", "thead", "tbody", "tr", "th", "td", "small", "figure", "figcaption", "pre",
    "svg", "defs", "g", "path", "text", "use", "clippath", "rect", "tspan",
}  # fmt: skip


class Page(HTMLParser):
    """Collects tags, attributes and visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def chart(label: str = "baseline", metric: str = "Mean TPOT") -> DotChart:
    rows = [DotRow(label, [10.0, 10.25, None], 10.125), DotRow("candidate", [11.0, 11.25, 11.5], 11.25)]
    return DotChart(metric, "ms", [DotGroup("requests_1", rows), DotGroup("requests_2", rows)], better="lower")


def view(text: str = "plain", **changed: Any) -> ComparisonReport:
    table = Table([Column("State"), Column("Mean TPOT", "ms", "number")], [[text, 10.125], ["candidate", None]])
    report = ComparisonReport(
        title=f"Comparison {text}",
        headline=headline("baseline", DELTAS),
        deltas=DELTAS,
        table=table,
        figures=[Figure(text, dot_chart(chart(text)))],
        states=[StateLine(text, "main", "4f1c2b7a")],
        facts=[Fact("Endpoint", text)],
        settings=[Setting("tp", "2", "argument")],
        commands=[f"remote-dev bench-compare --model {text}"],
        warnings=[text],
    )
    return replace(report, **changed)


def test_the_headline_gives_sign_percent_and_the_missing_policy() -> None:
    assert headline("baseline", DELTAS) == (
        "Against baseline, candidate: Mean TPOT +9.8 %, Output throughput -8.9 %. Verdict: no policy declared."
    )
    unknown = headline("a", [Delta("b", "TPOT", None, "requests_1"), Delta("c", "TPOT", 0.0, "requests_1")])
    assert "b (requests_1): TPOT unknown; c (requests_1): TPOT +0.0 %" in unknown
    assert "nothing could be compared" in headline("a", [])


def test_markdown_begins_with_title_and_headline_and_holds_every_part() -> None:
    parts = report_markdown(view()).split("\n\n")
    assert parts[0] == "# Comparison plain"
    assert NO_POLICY in parts[1]
    for words in (
        "## Warnings",
        "| plain | 10.12 |",
        "## States",
        "## Environment",
        "## Settings",
        "```sh\nremote-dev",
    ):
        assert any(words in part for part in parts), words


def test_html_shows_every_part_as_text() -> None:
    text = Page(report_html(view())).text
    for words in (
        "Comparison plain", "\N{MINUS SIGN}8.9 %", NO_POLICY, "Mean TPOT ms", "10.12", "4f1c2b7a", "argument",
        "lower is better", "requests_2", "remote-dev bench-compare --model plain",
    ):  # fmt: skip
        assert words in text, words


@pytest.mark.parametrize("simulated", [True, False])
def test_simulated_results_carry_a_banner_in_both_forms(simulated: bool) -> None:
    report = view(simulated=simulated)
    assert (SIMULATED_NOTE in report_markdown(report)) is simulated
    assert (SIMULATED_NOTE in Page(report_html(report)).text) is simulated


def test_a_report_without_optional_parts_has_no_empty_sections() -> None:
    bare = view(figures=(), states=(), facts=(), settings=(), commands=(), warnings=(), deltas=())
    assert report_markdown(bare).count("## ") == 1
    assert report_html(bare).count("<h2>") == 1


@pytest.mark.parametrize("hostile", [HOSTILE, "</style><script>x</script>", "javascript:alert(1)", "' onload='x"])
def test_hostile_text_stays_text_in_html(hostile: str) -> None:
    page = Page(report_html(view(hostile, headline=hostile)))
    assert page.tags <= ALLOWED_TAGS
    for name, value in page.attributes:
        assert not name.startswith("on")
        if name in ("href", "xlink:href", "src"):
            assert value is not None
            assert value.startswith("#")


def test_hostile_text_is_still_readable_in_html() -> None:
    text = Page(report_html(view(HOSTILE))).text
    assert "<img src=x onerror=alert(1)>" in text
    assert "{{7*7}}|`$\\frac$ # \ufffd#010101" in text


def test_hostile_text_stays_text_in_markdown() -> None:
    text = report_markdown(view(HOSTILE, headline=HOSTILE, commands=()))
    assert "<" not in text
    assert "\x1b" not in text
    assert [row for row in text.splitlines() if row.startswith("# ")] == [text.splitlines()[0]]


def test_only_signs_of_numbers_become_minus_signs() -> None:
    text = Page(report_html(view(headline="run-5 % of state-2 is -5 % off"))).text
    assert "run-5 % of state-2 is \N{MINUS SIGN}5 % off" in text


def test_the_page_needs_no_network_and_runs_no_script() -> None:
    text = report_html(view())
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert {part.split("/")[0] for part in text.split("://")[1:]} == {"www.w3.org"}
    assert "@import" not in text
    assert "@media (prefers-color-scheme: dark)" in text


def test_write_report_replaces_files_and_leaves_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "new" / "run"
    write_report(view("first"), out)
    paths = write_report(view("second"), out)
    assert paths == {"markdown": out / "report.md", "html": out / "report.html"}
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "report.md"]
    assert "second" in paths["markdown"].read_text(encoding="utf-8")
    assert paths["html"].stat().st_mode & 0o777 == 0o644


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(view("first"), tmp_path)

    def full_disk(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_report(view("second"), tmp_path)
    assert "first" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 2


def words_of(svg: str) -> list[str]:
    root = ET.fromstring(svg)  # noqa: S314 - drawn a moment ago by the code under test
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_figure_is_the_same_each_time_and_has_no_repeated_ids() -> None:
    svg = dot_chart(chart())
    assert svg == dot_chart(chart())
    both = svg + dot_chart(chart(metric="Mean TTFT"))
    ids = [part.split('"')[0] for part in both.split(' id="')[1:]]
    assert ids
    assert len(ids) == len(set(ids))


def test_a_figure_draws_one_dot_for_each_known_value_and_themes_its_colours() -> None:
    svg = dot_chart(chart())
    assert svg.count("<use ") >= 10
    words = words_of(svg)
    assert words.count("10.12") == 2
    assert words.count("11.25") == 2
    assert {"baseline", "candidate", "requests_1", "Mean TPOT (ms) · lower is better"} <= set(words)
    assert "var(--series-1, " in svg
    assert "#01010" not in svg
    assert "#0401" not in svg


@given(st.text(min_size=1, max_size=30))
@settings(max_examples=15, deadline=None)
def test_any_label_gives_a_well_formed_figure(label: str) -> None:
    svg = dot_chart(DotChart(label, label, [DotGroup(label, [DotRow(label, [1.0, 2.0], 1.5)])]))
    assert "1.50" in words_of(svg)


def test_dollar_signs_in_labels_are_no_formulas() -> None:
    words = words_of(dot_chart(DotChart("$m$", "$u$", [DotGroup("$g$", [DotRow("$\\frac$", [1.0], 1.0)])] * 2)))
    assert {"$m$ ($u$)", "$g$", "$\\frac$"} <= set(words)


def test_a_case_without_measurements_says_so_and_shows_no_numbers() -> None:
    svg = dot_chart(DotChart("TPOT", "ms", [DotGroup("a", [DotRow("x", [None], None)]), DotGroup("b", [])]))
    words = words_of(svg)
    assert words.count("no measurement") == 2
    assert not any(any(character.isdigit() for character in word) for word in words)


def test_importing_render_loads_no_heavy_library() -> None:
    code = (
        "import sys, vaws_mcp.render.report, vaws_mcp.render.terminal, vaws_mcp.render.delimited\n"
        "print([name for name in ('matplotlib', 'numpy', 'jinja2', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
