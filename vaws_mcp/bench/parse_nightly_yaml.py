"""YAML from outside within bounds, scalars as they are written: ``0.90`` and ``true`` stay these words."""

from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

MAX_BYTES = 256 << 10
MAX_NODES = 50_000
MAX_ALIASES = 500
MAX_KEYS = 2_000

_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"


class UnreadableError(Exception):
    """The text is no YAML, or exceeds a bound; the message says which."""


class _Loader(yaml.SafeLoader):
    """Knows of plain scalars only null and merge keys, counts what it composes, and notes keys that stand twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it
        first: [(tag, pattern) for tag, pattern in found if tag in (_NULL, _MERGE)]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.doubles: list[str] = []
        self._nodes = self._aliases = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        self._nodes += 1
        self._aliases += self.check_event(yaml.AliasEvent)
        if self._nodes > MAX_NODES or self._aliases > MAX_ALIASES:
            raise UnreadableError(f"it has more than {MAX_NODES} parts or {MAX_ALIASES} aliases")
        return super().compose_node(parent, index)  # pyright: ignore[reportArgumentType] - the root has no parent

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = [key.value for key, _value in node.value if isinstance(key, ScalarNode) and key.tag != _MERGE]
        self.doubles += sorted({key for key in keys if keys.count(key) > 1}) if len(keys) <= MAX_KEYS else []
        return node

    def flatten_mapping(self, node: MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MAX_KEYS:  # merging a mapping into itself again and again grows without bound
            raise UnreadableError(f"a mapping has more than {MAX_KEYS} keys")


def read_yaml(raw: bytes) -> tuple[Any, list[str]]:
    """Return the value of one YAML document, and the keys that stand in a mapping twice (the last one counts).

    Raises: UnreadableError.
    """
    if len(raw) > MAX_BYTES:
        raise UnreadableError(f"it has more than {MAX_BYTES} bytes")
    try:
        loader = _Loader(raw.decode("utf-8"))
        try:
            return loader.get_single_data(), loader.doubles
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        raise UnreadableError("it is not UTF-8") from None
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableError(f"it is not YAML ({' '.join(str(error).split())[:300]})") from None
