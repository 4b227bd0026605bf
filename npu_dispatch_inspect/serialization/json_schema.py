# SPDX-License-Identifier: BSD-3-Clause
"""JSON Schema of every kind of file, made of the records themselves.

The schemas are published in ``npu_dispatch_inspect/schema``. After a change of a
record they are written anew by ``python -m npu_dispatch_inspect.serialization.json_schema``.
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import textwrap
import types
import typing
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from npu_dispatch_inspect.records import Constant, QueueState, TensorSpec
from npu_dispatch_inspect.serialization import KINDS
from npu_dispatch_inspect.serialization._converter import resolved, value_type, writer
from npu_dispatch_inspect.serialization._kinds import Kind
from npu_dispatch_inspect.serialization._writing import TAG

__all__ = ["FOLDER", "schema_of", "schema_text"]

FOLDER = Path(__file__).parents[1] / "schema"
_PLAIN = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
}


def schema_of(kind: Kind[Any]) -> dict[str, Any]:
    """The JSON Schema of a ``.json`` file.

    Its definitions ``Head``, ``Record`` and ``End`` are those of the first line, the
    lines between and the last line of a ``.jsonl`` file.
    """
    maker = _Maker()
    head = maker.fields(kind.head)
    told = {"schema": {"const": kind.schema}, "version": {"const": kind.version}}
    head["properties"] = {**told, **head["properties"]}
    head["required"] = [*told, *head["required"]]
    records = [_tagged(maker, each) for each in kind.records]
    end = maker.fields(kind.end)
    end["properties"] = {
        "records": {"type": "integer", "minimum": 0},
        **end["properties"],
    }
    end["required"] = ["records", *end["required"]]
    definitions = {
        "Head": head,
        "Record": records[0] if len(records) == 1 else {"anyOf": records},
        "End": _closed({"end": end}, ["end"]),
        **dict(sorted(maker.definitions.items())),
    }
    whole = _closed(
        {
            **head["properties"],
            "records": {"type": "array", "items": {"$ref": "#/$defs/Record"}},
            "end": {"$ref": "#/$defs/End/properties/end"},
        },
        [*head["required"], "records", "end"],
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{kind.schema.replace('/', ':')}:{kind.version}",
        "title": f"{kind.noun} of npu_dispatch_inspect".capitalize(),
        **whole,
        "$defs": definitions,
    }


def schema_text(kind: Kind[Any]) -> str:
    """The text of a published schema file."""
    return json.dumps(schema_of(kind), indent=1, ensure_ascii=False) + "\n"


def _closed(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _tagged(maker: _Maker, record: type[Any]) -> dict[str, Any]:
    fields = maker.fields(record)
    fields["properties"] = {TAG: {"const": record.__name__}, **fields["properties"]}
    fields["required"] = [TAG, *fields["required"]]
    return fields


class _Maker:
    """Makes schemas of types, and keeps those of classes as definitions."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}

    def fields(self, kind: type[Any]) -> dict[str, Any]:
        """The schema of an attrs class with its fields."""
        docs = _field_docs(kind)
        properties: dict[str, Any] = {}
        required = []
        for each in attrs.fields(resolved(kind)):
            if each.type is Any:  # in no file
                continue
            schema = self.of(each.type)
            if each.name in docs:
                schema = {**schema, "description": docs[each.name]}
            if each.default is attrs.NOTHING:
                required.append(each.name)
            else:
                schema = {**schema, "default": _default(each.default)}
            properties[each.name] = schema
        made = _closed(properties, required)
        return {"description": _sentence(inspect.getdoc(kind) or ""), **made}

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type as it stands in the fields of records."""
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if kind == value_type():
            return self._named("Value", self._value)
        if kind is QueueState:
            return self._named("QueueState", _queue_state)
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin in (types.UnionType, typing.Union):
            return self._union(inner)
        if origin is tuple and inner[1:] == (...,):
            return {"type": "array", "items": self.of(inner[0])}
        if origin is tuple:
            return {
                "type": "array",
                "prefixItems": [self.of(each) for each in inner],
                "items": False,
                "minItems": len(inner),
            }
        if origin is Counter:
            return {"type": "object", "additionalProperties": {"type": "integer"}}
        if issubclass(kind, enum.Enum):
            return self._named(kind.__name__, lambda: _enum(kind))
        return self._named(kind.__name__, lambda: self.fields(kind))

    def _named(self, name: str, make: Any) -> dict[str, Any]:
        if name not in self.definitions:
            self.definitions[name] = None  # it may refer to itself
            self.definitions[name] = make()
        return {"$ref": f"#/$defs/{name}"}

    def _union(self, kinds: tuple[Any, ...]) -> dict[str, Any]:
        plain = [_PLAIN[each] for each in kinds if each in _PLAIN]
        others = [self.of(each) for each in kinds if each not in _PLAIN]
        if not others:
            return {"type": plain}
        if plain:
            others.append({"type": plain[0] if len(plain) == 1 else plain})
        return {"anyOf": others}

    def _value(self) -> dict[str, Any]:
        """What an argument can be; JSON has no word for some of it."""
        value = {"$ref": "#/$defs/Value"}
        odd = {"enum": ["nan", "inf", "-inf"]}
        number = {"anyOf": [{"type": "number"}, _closed({"float": odd}, ["float"])]}
        return {
            "anyOf": [
                {"type": ["null", "boolean", "integer", "number", "string"]},
                {"type": "array", "items": value},
                _closed({"tensor": self.of(TensorSpec)}, ["tensor"]),
                _closed({"constant": self.of(Constant)}, ["constant"]),
                _closed({"float": odd}, ["float"]),
                _closed(
                    {
                        "complex": {
                            "type": "array",
                            "prefixItems": [number, number],
                            "items": False,
                            "minItems": 2,
                        }
                    },
                    ["complex"],
                ),
            ]
        }


def _queue_state() -> dict[str, Any]:
    fields = QueueState._fields
    optional: dict[str, Any] = {"type": ["integer", "null"]}
    items = [{**optional, "title": name} for name in fields]
    return {
        "description": _sentence(inspect.getdoc(QueueState) or ""),
        "type": "array",
        "prefixItems": items,
        "items": False,
        "minItems": len(fields),
    }


def _enum(kind: type[enum.Enum]) -> dict[str, Any]:
    return {
        "description": _sentence(inspect.getdoc(kind) or ""),
        "enum": [each.value for each in kind],
    }


def _default(default: Any) -> Any:
    made = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
    return writer().unstructure(made)


def _field_docs(kind: type[Any]) -> dict[str, str]:
    """What stands under each field in the source, those of base classes too."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not attrs.has(each):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(after.value.value).split())
    return found


def _sentence(doc: str) -> str:
    """The first paragraph of a docstring."""
    return " ".join(doc.split("\n\n", 1)[0].split())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in KINDS:
        (FOLDER / f"{each.name}.json").write_text(schema_text(each), "utf-8")
