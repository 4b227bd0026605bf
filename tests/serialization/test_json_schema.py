# SPDX-License-Identifier: BSD-3-Clause
"""The published JSON Schemas: current, valid, and what files are checked against."""

from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_dispatch_inspect.serialization import KINDS, json_lines, json_text
from npu_dispatch_inspect.serialization.json_schema import FOLDER, schema_text
from tests.report_examples import failed, training_step
from tests.serialization.examples import THINGS

SCHEMAS = {
    kind.name: json.loads((FOLDER / f"{kind.name}.json").read_text("utf-8"))
    for kind in KINDS
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_published_schemas_are_current(kind):
    """They are written anew by python -m npu_dispatch_inspect.serialization.json_schema."""
    assert (FOLDER / f"{kind.name}.json").read_text("utf-8") == schema_text(kind)


def test_nothing_else_is_published():
    """A schema of a kind that is gone is gone as well."""
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(SCHEMAS)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_schemas_are_schemas(schema):
    """Each is valid by the draft that it names."""
    jsonschema.Draft202012Validator.check_schema(schema)


def validators(name):
    """For the whole of a document, and for each of its lines."""
    schema = SCHEMAS[name]
    parts = {
        part: jsonschema.Draft202012Validator(
            {"$ref": f"#/$defs/{part}", "$defs": schema["$defs"]}
        )
        for part in ("Head", "Record", "End")
    }
    return jsonschema.Draft202012Validator(schema), parts


@pytest.mark.parametrize("name", THINGS)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_written_is_valid(name, data):
    """Documents as a whole, and every line."""
    thing = data.draw(THINGS[name])
    whole, parts = validators(name)
    whole.validate(json.loads("".join(json_text(thing))))
    head, *records, end = map(json.loads, json_lines(thing))
    parts["Head"].validate(head)
    for each in records:
        parts["Record"].validate(each)
    parts["End"].validate(end)


@pytest.mark.parametrize("report", [training_step(), failed()], ids=["step", "failed"])
def test_reports_are_valid(report):
    """Calls, lines, chains and an error of the device."""
    whole, _ = validators("dispatch_report")
    whole.validate(json.loads("".join(json_text(report))))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), "1.0"),
        (("more",), 1),
        (("end",), {}),
        (("records", 0, "record"), "Nothing"),
        (("records", 0, "index"), "0"),
        (("records", 0, "index"), True),
        (("records", 0, "phase"), "odd"),
        (("records", 0, "colour"), "red"),
        (("records", 0, "outputs"), [{"tensor": {"dtype": "float32"}}]),
        (("records", 0, "outputs"), [{"complex": [1.0]}]),
    ],
)
def test_what_load_refuses_is_invalid(path, value):
    """The schema knows what the reader knows."""
    content = json.loads("".join(json_text(training_step().trace)))
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    whole, _ = validators("op_trace")
    with pytest.raises(jsonschema.ValidationError):
        whole.validate(content)


def test_fields_are_described():
    """A reader of the schema learns what a field means without the source."""
    fields = SCHEMAS["op_trace"]["$defs"]["Record"]["properties"]
    assert fields["start_ns"]["description"] == (
        "Host time in nanoseconds since the block began."
    )
    assert (
        SCHEMAS["log_trace"]["$defs"]["QueueState"]["prefixItems"][0]["title"]
        == "device"
    )
