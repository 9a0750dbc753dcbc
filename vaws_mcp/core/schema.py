"""Plain JSON schemas: objects without ``$ref``, ``anyOf``, ``oneOf``, ``allOf`` and generated titles."""

from typing import Any

from pydantic import BaseModel


def plain_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the model's JSON schema in the subset every MCP client understands.

    An optional field is simply not required; nested models are written in place.
    """
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    plain = _flatten(schema, definitions)
    plain.pop("description", None)
    plain["additionalProperties"] = False
    return plain


def _flatten(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_flatten(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    return _flatten_object(dict(node), definitions)


def _flatten_object(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    reference = node.pop("$ref", None)
    if reference is not None:
        node = {**definitions[reference.rsplit("/", 1)[-1]], **node}
    for union in ("anyOf", "oneOf", "allOf"):
        choices = [choice for choice in node.pop(union, []) if choice.get("type") != "null"]
        if choices:
            node = {**choices[0], **node}
    if isinstance(node.get("title"), str):
        del node["title"]
    if node.get("default", ...) is None:
        del node["default"]
    return {key: _flatten_value(key, value, definitions) for key, value in node.items()}


def _flatten_value(key: str, value: Any, definitions: dict[str, Any]) -> Any:
    # Below ``properties`` keys are field names, which may well be "title" or "default".
    if key == "properties":
        return {name: _flatten(item, definitions) for name, item in value.items()}
    if key in ("default", "enum", "const", "examples", "required"):
        return value
    return _flatten(value, definitions)
