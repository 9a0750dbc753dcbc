"""Typed access to the parameters of a request."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Union, cast

from .refusal import bad_request

Number = Union[int, float]


class Params:
    """The parameters of one request; every reader refuses a value of the wrong type and names it."""

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        self.values = values
        self.where = where

    def _bad(self, name: str, wanted: str) -> Exception:
        return bad_request(f"{self.where}{name} must be {wanted}, not {self.values.get(name)!r}")

    def text(self, name: str) -> str:
        """Return a required, non-empty string without NUL."""
        value = self.optional_text(name)
        if not value:
            raise self._bad(name, "a non-empty string")
        return value

    def optional_text(self, name: str) -> Optional[str]:
        """Return a string without NUL, or None when it is absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or "\0" in value:
            raise self._bad(name, "a string without NUL")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._bad(name, "true or false")
        return value

    def integer(self, name: str, default: int, low: int = 0) -> int:
        """Return an integer that is not below ``low``."""
        value = self.optional_integer(name)
        if value is None:
            return default
        if value < low:
            raise self._bad(name, f"at least {low}")
        return value

    def optional_integer(self, name: str) -> Optional[int]:
        """Return an integer, or None when it is absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._bad(name, "an integer")
        return value

    def seconds(self, name: str, default: float) -> float:
        """Return a time span in seconds, 0 or more."""
        value = self.optional_seconds(name)
        return default if value is None else value

    def optional_seconds(self, name: str) -> Optional[float]:
        """Return a time span in seconds, 0 or more, or None when it is absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
            raise self._bad(name, "a number of seconds, 0 or more")
        return float(value)

    def choice(self, name: str, choices: List[str]) -> str:
        """Return one of ``choices``; the first is the default."""
        value = self.optional_text(name)
        if value is None:
            return choices[0]
        if value not in choices:
            raise self._bad(name, "one of " + ", ".join(choices))
        return value

    def texts(self, name: str) -> List[str]:
        """Return a list of strings without NUL; empty when absent."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._bad(name, "a list of strings")
        items = cast("List[Any]", value)
        if not all(isinstance(item, str) and "\0" not in item for item in items):
            raise self._bad(name, "a list of strings without NUL")
        return cast("List[str]", items)

    def integers(self, name: str) -> List[int]:
        """Return a list of integers; empty when absent."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._bad(name, "a list of integers")
        items = cast("List[Any]", value)
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            raise self._bad(name, "a list of integers")
        return cast("List[int]", items)

    def mapping(self, name: str) -> Dict[str, Any]:
        """Return an object; empty when absent."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._bad(name, "an object")
        return cast("Dict[str, Any]", value)

    def environment(self, name: str) -> Dict[str, Optional[str]]:
        """Return variables by name; a null value means that the variable is to be unset."""
        values = self.mapping(name)
        for key, value in values.items():
            if not key or "=" in key or "\0" in key:
                raise bad_request(f"{self.where}{name} has an impossible variable name {key!r}")
            if value is not None and (not isinstance(value, str) or "\0" in value):
                raise bad_request(f"{self.where}{name}.{key} must be a string without NUL or null")
        return cast("Dict[str, Optional[str]]", values)
