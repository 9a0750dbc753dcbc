"""A bounded unified diff of two contents of a file, for people and models to look at."""

from __future__ import annotations

import difflib
from typing import Iterator, List, NamedTuple, Tuple

from .text import display, split_lines

CONTEXT_LINES = 3
_STEP = 1 << 14
_COMPARED_LINES = 1000
_MIDDLE_BYTES = 4 << 20

Opcode = Tuple[str, int, int, int, int]


class Preview(NamedTuple):
    """A diff as text. ``left_out`` counts its lines that are missing at the end, 0 for a whole one.

    ``first_line`` is where the new content first differs, counted from 1.
    """

    text: str
    left_out: int
    first_line: int


def preview(before: bytes, after: bytes, max_bytes: int) -> Preview:
    """Return the difference of two different contents, of which at most ``max_bytes`` of text are kept."""
    same = _line_prefix(before, after)
    rest = min(_common_suffix(before, after), min(len(before), len(after)) - same)
    begin = _lines_back(before, same)
    first = before.count(b"\n", 0, same) + 1
    old_part = before[begin : _lines_on(before, len(before) - rest)]
    new_part = after[begin : _lines_on(after, len(after) - rest)]
    if len(old_part) + len(new_part) > _MIDDLE_BYTES:
        note = f"[… {len(old_part)} bytes become {len(new_part)}, too many for a diff …]\n"
        return Preview(note, old_part.count(b"\n") + new_part.count(b"\n") + 1, first)
    old, new = split_lines(old_part), split_lines(new_part)
    base = before.count(b"\n", 0, begin)
    kept: List[str] = []
    used = left_out = 0
    for line in _diff_lines(old, new, base):
        used += len(line.encode("utf-8", "replace")) + 1
        if left_out or used > max_bytes:
            left_out += 1
        else:
            kept.append(line)
    if left_out:
        kept.append(f"[… {left_out} more lines of this diff are left out …]")
    return Preview("\n".join(kept) + "\n", left_out, first)


def _line_prefix(one: bytes, two: bytes) -> int:
    """Return the length of the common beginning in whole lines."""
    most = min(len(one), len(two))
    at = 0
    while at < most and one[at : at + _STEP] == two[at : at + _STEP]:
        at += _STEP
    low, high = min(at, most), min(at + _STEP, most)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return one.rfind(b"\n", 0, low) + 1


def _common_suffix(one: bytes, two: bytes) -> int:
    """Return how many bytes at the end are equal, in steps: a little less than there are is good enough."""
    most = min(len(one), len(two))
    equal, step = 0, _STEP
    while step:
        reach = equal + step
        if reach <= most and one[len(one) - reach : len(one) - equal] == two[len(two) - reach : len(two) - equal]:
            equal = reach
        else:
            step //= 2
    return equal


def _lines_back(raw: bytes, position: int) -> int:
    for _ in range(CONTEXT_LINES):
        if position == 0:
            break
        position = raw.rfind(b"\n", 0, position - 1) + 1
    return position


def _lines_on(raw: bytes, position: int) -> int:
    for _ in range(CONTEXT_LINES + 1):  # the line of the position itself is only partly in the common end
        end = raw.find(b"\n", position)
        if end < 0:
            return len(raw)
        position = end + 1
    return position


def _diff_lines(old: List[bytes], new: List[bytes], base: int) -> Iterator[str]:
    for group in _grouped(_opcodes(old, new)):
        first, last = group[0], group[-1]
        old_range = _range(base + first[1], last[2] - first[1])
        yield f"@@ -{old_range} +{_range(base + first[3], last[4] - first[3])} @@"
        for tag, old_begin, old_end, new_begin, new_end in group:
            if tag == "equal":
                yield from _marked(" ", old[old_begin:old_end])
            else:
                yield from _marked("-", old[old_begin:old_end])
                yield from _marked("+", new[new_begin:new_end])


def _range(begin: int, length: int) -> str:
    return f"{begin + 1},{length}" if length else f"{begin},0"


def _marked(mark: str, lines: List[bytes]) -> Iterator[str]:
    for line in lines:
        yield mark + display(line)
        if not line.endswith(b"\n"):
            yield "\\ No newline at end of file"


def _opcodes(old: List[bytes], new: List[bytes]) -> List[Opcode]:
    """Return how ``old`` becomes ``new``; parts too long to compare are line by line or as one block."""
    if len(old) + len(new) <= _COMPARED_LINES:
        return list(difflib.SequenceMatcher(None, old, new).get_opcodes())
    if len(old) != len(new):
        head, tail = min(CONTEXT_LINES, len(old), len(new)), 0
        while head and old[:head] != new[:head]:
            head -= 1
        while tail < min(len(old), len(new)) - head and old[-tail - 1] == new[-tail - 1]:
            tail += 1
        old_end, new_end = len(old) - tail, len(new) - tail
        return [
            ("equal", 0, head, 0, head),
            ("replace", head, old_end, head, new_end),
            ("equal", old_end, len(old), new_end, len(new)),
        ]
    codes: List[Opcode] = []
    begin = 0
    for at in range(1, len(old) + 1):
        if at == len(old) or (old[at] == new[at]) != (old[begin] == new[begin]):
            codes.append(("equal" if old[begin] == new[begin] else "replace", begin, at, begin, at))
            begin = at
    return codes


def _grouped(codes: List[Opcode]) -> Iterator[List[Opcode]]:
    """Cut long equal parts down to context, and begin a new group at each of them."""
    group: List[Opcode] = []
    for code in codes:
        tag, old_begin, old_end, new_begin, new_end = code
        length = old_end - old_begin
        if tag != "equal" or (group and length <= 2 * CONTEXT_LINES):
            group.append(code)
            continue
        if any(known[0] != "equal" for known in group):
            keep = min(CONTEXT_LINES, length)
            yield [*group, ("equal", old_begin, old_begin + keep, new_begin, new_begin + keep)]
        keep = min(CONTEXT_LINES, length)
        group = [("equal", old_end - keep, old_end, new_end - keep, new_end)]
    if any(known[0] != "equal" for known in group):
        tag, old_begin, old_end, new_begin, new_end = group[-1]
        keep = min(CONTEXT_LINES, old_end - old_begin) if tag == "equal" else 0
        if tag == "equal":
            group[-1] = (tag, old_begin, old_begin + keep, new_begin, new_begin + keep)
        yield group
