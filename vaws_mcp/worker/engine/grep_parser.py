"""Reads the text of a pattern."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple, Union

from ..refusal import Refusal
from .grep_pattern import (
    MAX_REPEAT,
    Anchor,
    Chars,
    Either,
    Joined,
    Node,
    Options,
    Ranges,
    Raw,
    Repeat,
    complement,
    folded,
    merged,
    unsupported,
)

_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32))
_SHORTHANDS: Dict[str, Ranges] = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS: Dict[str, int] = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_POSIX: Dict[str, Ranges] = {
    "alpha": ((65, 90), (97, 122)),
    "digit": _DIGIT,
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "upper": ((65, 90),),
    "lower": ((97, 122),),
    "space": _SPACE,
    "blank": ((9, 9), (32, 32)),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
    "word": _WORD,
}


def parse(pattern: str, options: Options) -> Node:
    """Parse a pattern.

    Raises: Refusal ``bad_pattern`` that says what is outside the subset.
    """
    return _Parser(pattern, options).whole()


class _Parser:
    def __init__(self, pattern: str, options: Options) -> None:
        self._text = pattern
        self._at = 0
        self._fold = options.ignore_case
        self._options = options
        self._depth = 0

    def _bad(self, what: str) -> Refusal:
        return unsupported(self._text, what)

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._bad("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def whole(self) -> Node:
        if self._options.fixed:
            return Joined([self._literal(char) for char in self._text])
        self._leading_flags()
        node = self._either()
        if self._at < len(self._text):
            raise self._bad("a closing parenthesis without an opening one")
        return node

    def _leading_flags(self) -> None:
        if not self._peek("(?"):
            return
        end = self._text.find(")", self._at)
        letters = self._text[self._at + 2 : end]
        if end > 0 and letters and set(letters) <= set("ims"):
            self._fold = self._fold or "i" in letters
            self._at = end + 1

    def _either(self) -> Node:
        branches = [self._joined()]
        while self._take("|"):
            branches.append(self._joined())
        return branches[0] if len(branches) == 1 else Either(branches)

    def _joined(self) -> Node:
        nodes: List[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            nodes.append(self._repeated(self._atom()))
        return Joined(nodes)

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        if isinstance(node, Anchor):
            raise self._bad("a repeated anchor means nothing")
        lazy = self._take("?")
        if self._bounds() is not None:
            raise self._bad("a repetition of a repetition needs a group, possessive ones are not supported")
        return Repeat(node, bounds[0], bounds[1], lazy)

    def _bounds(self) -> Optional[Tuple[int, Optional[int]]]:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        end = self._text.find("}", self._at)
        if not self._peek("{") or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        digits = all(part == "" or (part.isascii() and part.isdigit()) for part in (low, high))
        if not digits or (not low and not high):
            return None
        self._at = end + 1
        least = int(low or 0)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self._bad("the bounds of a repetition are out of order or above %d" % MAX_REPEAT)
        return least, most

    def _atom(self) -> Node:
        char = self._next()
        if char in "*+?":
            raise self._bad("there is nothing to repeat before %r" % char)
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == ".":
            return Chars(complement(() if self._options.multiline else ((10, 10),)))
        if char in "^$":
            return Anchor(char)
        return self._escape() if char == "\\" else self._literal(char)

    def _group(self) -> Node:
        if self._take("?") and not self._take(":"):
            named = self._take("P<") or (self._peek("<") and not self._peek("<=") and not self._peek("<!"))
            if not named:
                raise self._bad("look-around, back-references and flags inside a pattern are not supported")
            end = self._text.find(">", self._at)
            if end < 0:
                raise self._bad("the name of a group does not end")
            self._at = end + 1
        self._depth += 1
        if self._depth > 50:
            raise self._bad("groups are nested too deeply")
        node = self._either()
        self._depth -= 1
        if not self._take(")"):
            raise self._bad("an opening parenthesis without a closing one")
        return node if isinstance(node, Either) else Joined([node])

    def _literal(self, char: str) -> Node:
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            return Raw(code - 0xDC00)
        if code == 0 or 0xD800 <= code <= 0xDFFF:
            raise self._bad("NUL and lone surrogates cannot be searched for")
        if code == 10 and not self._options.multiline:
            raise self._bad("a line break needs multiline")
        ranges: Ranges = ((code, code),)
        wide = folded(ranges) if self._fold else ranges
        return Chars(wide, code if wide == ranges or code < 128 else None)

    def _escape(self) -> Node:
        char = self._next()
        if char in "bB":
            return Anchor(char)
        if char.lower() in _SHORTHANDS:
            return self._set(_shorthand(char))
        return self._literal(self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROLS:
            return chr(_CONTROLS[char])
        if char in "xuU":
            return self._hex(char)
        if char.isalnum() or ord(char) > 127:
            raise self._bad("\\%s is not supported" % char)
        return char

    def _hex(self, kind: str) -> str:
        end = self._text.find("}", self._at)
        if self._take("{"):
            digits = self._text[self._at : end] if end > 0 else ""
            self._at = end + 1
        else:
            count = {"x": 2, "u": 4, "U": 8}[kind]
            digits = self._text[self._at : self._at + count]
            self._at += count
        try:
            code = int(digits, 16)
            return chr(code)
        except (ValueError, OverflowError):
            raise self._bad("\\%s needs hexadecimal digits of a character" % kind) from None

    def _set(self, ranges: Ranges) -> Chars:
        """Return a set; in line mode no set has the line break."""
        if self._options.multiline:
            return Chars(complement(complement(ranges)))
        return Chars(complement(merged([*complement(ranges), (10, 10)])))

    def _class(self) -> Node:
        negated = self._take("^")
        ranges: List[Tuple[int, int]] = []
        first = True
        while first or not self._peek("]"):
            for sign in ("&&", "--", "~~"):
                if self._peek(sign) and not self._peek(sign + "]"):
                    raise self._bad("operations on classes are not supported")
            ranges += self._class_item()
            first = False
        self._at += 1
        found = merged(ranges)
        if self._fold:
            found = folded(found)
        return self._set(complement(found) if negated else found)

    def _class_item(self) -> Ranges:
        if self._take("[:"):
            end = self._text.find(":]", self._at)
            name = self._text[self._at : max(end, self._at)]
            if name not in _POSIX:
                raise self._bad("the class [:%s:] is not known" % name)
            self._at = end + 2
            return _POSIX[name]
        low = self._class_char()
        if not isinstance(low, int):
            return low
        if not self._peek("-") or self._peek("-]"):
            return ((low, low),)
        self._at += 1
        high = self._class_char()
        if not isinstance(high, int) or high < low:
            raise self._bad("a range in a class is out of order")
        return ((low, high),)

    def _class_char(self) -> Union[int, Ranges]:
        char = self._next()
        if char == "[":
            raise self._bad("[ inside a class needs a backslash")
        if char == "\\":
            char = self._next()
            if char.lower() in _SHORTHANDS:
                return _shorthand(char)
            char = "\b" if char == "b" else self._escaped_char(char)
        if 0xD800 <= ord(char) <= 0xDFFF:
            raise self._bad("bytes that are no UTF-8 cannot stand in a class")
        return ord(char)


def _shorthand(char: str) -> Ranges:
    ranges = _SHORTHANDS[char.lower()]
    return ranges if char.islower() else complement(ranges)
