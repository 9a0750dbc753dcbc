"""The same table in every format, with hostile text that stays text."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.render.delimited import table_csv
from vaws_mcp.render.markdown import code_block, escape, table_markdown
from vaws_mcp.render.plain import block, line
from vaws_mcp.render.tables import Column, Table, cell_text
from vaws_mcp.render.terminal import print_table

TABLE = Table(
    [Column("State"), Column("Mean TPOT", "ms", "number"), Column("Change", "%", "signed", 1)],
    [["base", 10.126, None], ["b|c`<i>\n[x](y)", 11.2, -9.96]],
)


@pytest.mark.parametrize(
    ("column", "cell", "text"),
    [
        (Column("x", format="number"), 1.005, "1.00"),
        (Column("x", format="number", digits=0), 1234, "1234"),
        (Column("x", format="signed", digits=1), 2.0, "+2.0"),
        (Column("x", format="percent", digits=1), 12.34, "12.3 %"),
        (Column("x", format="signed_percent", digits=1), -0.5, "-0.5 %"),
        (Column("x", format="number"), None, "\N{EN DASH}"),
        (Column("x", format="number"), "running", "running"),
        (Column("x"), 3, "3"),
        (Column("x"), "a\n b\x1b[31m", "a b"),
    ],
)
def test_cells_follow_the_format_of_their_column(column: Column, cell: str | float | None, text: str) -> None:
    assert cell_text(column, cell) == text


def test_a_row_of_the_wrong_width_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 cells, the table has 2 columns"):
        Table([Column("a"), Column("b")], [[1, 2], [1]])


def test_markdown_aligns_numbers_and_escapes_labels() -> None:
    assert table_markdown(TABLE).splitlines() == [
        "| State | Mean TPOT (ms) | Change (%) |",
        "| --- | ---: | ---: |",
        "| base | 10.13 | \N{EN DASH} |",
        r"| b\|c\`&lt;i&gt; \[x\](y) | 11.20 | -10.0 |",
    ]


@given(st.text())
def test_escaped_text_holds_no_active_markdown(text: str) -> None:
    found = escape(text)
    assert not {"\n", "\r", "<", ">", "\x1b"} & set(found)
    bare = found.replace("\\\\", "")
    for character in "|`*[]":
        assert bare.count(character) == bare.count(f"\\{character}")


def test_underscores_inside_names_are_left_alone() -> None:
    assert escape("mean_tpot_ms _x_ $y$") == r"mean_tpot_ms \_x\_ &#36;y&#36;"


@given(st.text("`a\n", max_size=20) | st.text())
def test_a_code_block_is_closed_only_by_its_own_fence(text: str) -> None:
    lines = code_block(text, "sh").split("\n")
    assert lines[0] == f"{lines[-1]}sh"
    assert not any(inner.strip().startswith(lines[-1]) for inner in lines[1:-1])


def test_csv_keeps_full_precision_and_leaves_missing_values_empty() -> None:
    rows = list(csv.reader(io.StringIO(table_csv(TABLE))))
    assert rows[0] == ["State", "Mean TPOT (ms)", "Change (%)"]
    assert rows[1] == ["base", "10.126", ""]
    assert rows[2] == ["b|c`<i> [x](y)", "11.2", "-9.96"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-x", "@sum", "\t=1", " =1", "\u200b=1"])
def test_csv_text_never_begins_like_a_formula(text: str) -> None:
    [[cell]] = list(csv.reader(io.StringIO(table_csv(Table([Column("a")], [[text]])))))[1:]
    assert cell.startswith("'")


def test_a_terminal_table_shows_markup_as_text() -> None:
    stream = io.StringIO()
    print_table(Table([Column("State"), Column("n", "ms", "number")], [["[red]a[/red]:smile:\x1b[2J", 1.5]]), stream)
    assert "[red]a[/red]:smile:" in stream.getvalue()
    assert "1.50" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_narrow_terminal_loses_no_text() -> None:
    stream = io.StringIO()
    print_table(Table([Column("State", "x")], [["a" * 50]]), stream, width=20)
    assert stream.getvalue().count("a") >= 50


def test_direction_overrides_zero_widths_and_lone_surrogates_are_removed() -> None:
    assert line("a\u202eb\u200bc\ud800d\u2028e\x00\x9bf") == "abc\ufffdd ef"
    assert block("a\r\nb\u2066\n") == "a\nb\n"


@given(st.text(st.characters()))
def test_a_line_can_always_be_written(text: str) -> None:
    assert "\n" not in line(text)
    assert line(text).encode("utf-8").decode("utf-8") == line(text)
