"""The JSON Schema of subscriber files at work: what does not have the documented shape, and where.

`subscribers.schema.json` is the only description of the structure. `jsonschema` explains what is wrong with a document;
at some 150 microseconds per subscriber it would take most of the time of loading 100,000 good ones, so the same schema,
compiled, first picks the subscribers that need explaining. Both readings of the schema are tested to agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from rankcast.lazily import module
from rankcast.model.errors import hint, shown
from rankcast.storage.subscribers.compiled_schema import Test, compiled
from rankcast.storage.tokens import Path

if TYPE_CHECKING:
    import jsonschema
else:
    jsonschema = module("jsonschema")

MAX_UNKNOWN_KEYS = 20
"""Unknown keys of one mapping that are reported one by one: looking for the key that was meant takes its time."""


class Finding(NamedTuple):
    """Something to report about one place of a document."""

    path: Path
    message: str
    warning: bool = False


@cache
def subscribers_schema() -> dict[str, Any]:
    """Return the schema that is shipped with the package."""
    text = resources.files("rankcast.storage").joinpath("subscribers.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _tests() -> tuple[Test, Test]:
    whole, definitions = compiled(subscribers_schema())
    return whole, definitions["subscriber"]


def has_structure(document: Any) -> bool:
    """Whether a document has the documented shape."""
    return _tests()[0](document)


def structure_findings(document: Any) -> list[Finding]:
    """Return everything that does not have the documented shape, in the order of the document's subscribers."""
    if has_structure(document):
        return []
    positions: list[int] = []
    if isinstance(document, dict) and isinstance(document.get("subscribers"), list):
        every = document["subscribers"]
        positions = [at for at, subscriber in enumerate(every) if not _tests()[1](subscriber)]
        document = {**document, "subscribers": [every[at] for at in positions]}
    found: dict[Finding, None] = {}
    for error in jsonschema.Draft202012Validator(subscribers_schema()).iter_errors(document):
        path = tuple(error.absolute_path)
        if positions and len(path) > 1 and path[0] == "subscribers":
            path = ("subscribers", positions[int(path[1])], *path[2:])
        found.update(dict.fromkeys(error_findings(error, path)))
    return list(found)


def error_findings(error: jsonschema.ValidationError, path: Path) -> Iterator[Finding]:
    """Yield what to say of one error of a schema whose parts all have a title: what is there, what was expected."""
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "required":
        missing = [repr(name) for name in schema["required"] if name not in instance]
        yield Finding(path, f"missing: {', '.join(missing)}")
    elif error.validator == "additionalProperties":
        yield from _unknown_keys(instance, list(schema["properties"]), path)
    else:
        yield Finding(path, f"{shown(instance)} is not {schema['title']}")


def _unknown_keys(instance: dict[Any, Any], known: list[str], path: Path) -> Iterator[Finding]:
    unknown = [name for name in instance if name not in known]
    for name in unknown[:MAX_UNKNOWN_KEYS]:
        yield Finding((*path, name), f"unknown key {shown(name)}; {hint(name, known)}")
    if len(unknown) > MAX_UNKNOWN_KEYS:
        yield Finding(path, f"unknown keys: {len(unknown) - MAX_UNKNOWN_KEYS:,} more")
