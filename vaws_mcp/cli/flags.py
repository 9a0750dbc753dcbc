"""Command-line options made from a request model, so that a flag and a tool argument cannot drift apart."""

import argparse
import typing
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vaws_mcp.core.operation import Operation

REST = "..."


def add_options(parser: argparse.ArgumentParser, operation: Operation) -> None:
    """Add one option, or positional argument, for each field of the operation's request."""
    positional = [name.removesuffix(REST) for name in operation.positionals]
    fields = operation.request.model_fields
    for name in positional:
        rest = f"{name}{REST}" in operation.positionals
        parser.add_argument(name, nargs="*" if rest else "?", default=None, help=_help(fields[name]))
    for name, field in fields.items():
        if name not in positional:
            _add_option(parser, name, field, operation)


def _add_option(parser: argparse.ArgumentParser, name: str, field: FieldInfo, operation: Operation) -> None:
    flags = [f"--{name.replace('_', '-')}"]
    flags += [
        f"--{alias.replace('_', '-')}" for alias, target in operation.aliases if target == name and len(alias) > 1
    ]
    kind = _kind(field.annotation)
    if kind is bool:
        parser.add_argument(*flags, dest=name, default=None, action=argparse.BooleanOptionalAction, help=_help(field))
    elif kind is dict:
        parser.add_argument(*flags, dest=name, action="append", metavar="NAME=VALUE", help=_help(field))
    elif kind is list and _is_objects(field):
        parser.add_argument(*flags, dest=name, metavar="JSON", help=_help(field))
    elif kind is list and is_words(field):
        parser.add_argument(*flags, dest=name, metavar="'ARGS'", help=_help(field))
    elif kind is list:
        parser.add_argument(*flags, dest=name, action="append", metavar=_metavar(name), help=_help(field))
    else:
        parser.add_argument(*flags, dest=name, metavar=_metavar(name), help=_help(field))


def _kind(annotation: Any) -> type:
    """Return bool, dict, list or str for a field's annotation."""
    options = [option for option in typing.get_args(annotation) if option is not type(None)]
    origin = typing.get_origin(annotation)
    if annotation is bool or bool in options:
        return bool
    if origin is dict or any(typing.get_origin(option) is dict for option in options):
        return dict
    if origin in (list, tuple) or any(typing.get_origin(option) in (list, tuple) for option in options):
        return list
    return str


def _is_objects(field: FieldInfo) -> bool:
    """Whether a list field holds objects, which the command line takes as one JSON array."""
    items = typing.get_args(field.annotation)
    return bool(items) and isinstance(items[0], type) and issubclass(items[0], BaseModel)


def is_words(field: FieldInfo) -> bool:
    """Whether a list field takes one string that is split like a shell does."""
    return any("_split_words" in repr(item) for item in field.metadata)


def _metavar(name: str) -> str:
    return name.rsplit("_", 1)[-1].upper()


def _help(field: FieldInfo) -> str:
    text = field.description or ""
    default = field.default
    plain = isinstance(default, int | float | str) and not isinstance(default, bool)
    if plain and default != "" and "efault" not in text:
        text = f"{text} (default: {default})"
    return text.replace("%", "%%")


def arguments_of(namespace: argparse.Namespace, operation: Operation) -> dict[str, Any]:
    """Return the arguments that were given; options that were not given are absent."""
    given = {name: getattr(namespace, name, None) for name in operation.request.model_fields}
    return {name: value for name, value in given.items() if value is not None and value != []}
