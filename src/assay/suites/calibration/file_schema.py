"""The JSON Schema of labelled answers, made from the field names and words that `labels.py` reads."""

from __future__ import annotations

from assay.core.json_schema import TEXTS, FileSchema, JsonSchema, complete, described, with_value
from assay.suites.calibration.labels import FIELD_NAMES, VOTE_WORDS

_VALUE: JsonSchema = {"type": ["string", "number", "null"]}
_TEXTS = {
    "question": "The question.",
    "reference": "The reference answer.",
    "response": "The answer that was judged.",
    "label": "true or false, Correct or Wrong; or several votes, of which the majority counts. "
    "A row without a label is left out.",
    "category": "Agreement is also reported by category.",
    "cluster": "Conversation of the row, for --cluster and for intervals.",
    "evidence": "Texts that contain the answer.",
    "rubric": "The rubric, in place of question and reference.",
    "text": "The text that a rubric is about.",
}


def file_schemas() -> list[FileSchema]:
    """Return the schemas of this suite's files."""
    return [FileSchema("labels", "Labelled answers for judge calibrate (JSON or JSONL).", labels_schema)]


def labels_schema() -> JsonSchema:
    """Return the schema of one row, of a list of rows, or of an object that contains such lists at any depth.

    Options such as --label-field name other fields, which no schema can know.
    """
    words = "|".join(sorted(VOTE_WORDS))
    # Words count in any case; an editor has no flag for that.
    pattern = "".join(f"[{char}{char.upper()}]" if char.isalpha() else char for char in words)
    vote: JsonSchema = {
        "anyOf": [
            {"type": "boolean"},
            {"enum": [0, 1]},
            {"type": "string", "pattern": rf"^\s*({pattern})\s*$"},
        ]
    }
    label: JsonSchema = {
        "anyOf": [
            vote,
            {"type": "array", "items": vote, "minItems": 1},
            {"type": "object", "additionalProperties": vote, "minProperties": 1},
            {"type": "null"},
        ]
    }
    special: dict[str, JsonSchema] = {
        "label": {"$ref": "#/$defs/Label"},
        "evidence": {"anyOf": [TEXTS, {"type": "null"}]},
    }
    properties: dict[str, JsonSchema] = {}
    for field, names in FIELD_NAMES.items():
        value = special.get(field, _VALUE)
        for name in names:
            # `answer` and `output` may be one of two fields. The first description is the likelier one.
            properties.setdefault(name, described(value, _TEXTS[field]))
    to_judge = [with_value(name) for field in ("response", "text") for name in FIELD_NAMES[field]]
    judged_by = [
        with_value(name) for field in ("question", "reference", "rubric") for name in FIELD_NAMES[field]
    ]
    looks_like_row: JsonSchema = {"type": "object", "allOf": [{"anyOf": to_judge}, {"anyOf": judged_by}]}
    # Rows without a label are left out, so that nothing else in them is read.
    has_label: JsonSchema = {"anyOf": [with_value(name) for name in FIELD_NAMES["label"]]}
    row: JsonSchema = {
        "type": "object",
        "if": has_label,
        "then": {**looks_like_row, "properties": properties},
    }
    # Lists of rows may be at any depth, by conversation for example. Other lists and values are not read.
    lists: JsonSchema = {
        "if": {"type": "array", "contains": {"$ref": "#/$defs/LooksLikeRow"}},
        "then": {"items": {"$ref": "#/$defs/Row"}},
        "else": {"if": {"type": "object"}, "then": {"additionalProperties": {"$ref": "#/$defs/Lists"}}},
    }
    schema: JsonSchema = {
        "title": "Labels",
        "type": ["object", "array"],
        "if": {"$ref": "#/$defs/LooksLikeRow"},
        "then": {"$ref": "#/$defs/Row"},
        "else": {"$ref": "#/$defs/Lists"},
        "$defs": {"Label": label, "Row": row, "Lists": lists, "LooksLikeRow": looks_like_row},
    }
    return complete(schema, "Answers with labels: a row, a list of rows, or an object with such lists.")
