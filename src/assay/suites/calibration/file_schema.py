"""The JSON Schema of labels, made from the field names and words that `labels.py` and `labelled_question.py` read."""

from __future__ import annotations

from assay.files.json_schema import TEXTS, FileSchema, JsonSchema, complete, described, with_value
from assay.suites.calibration.labelled_question import LABEL, LABELS, QUESTION_FIELDS, UPDATES
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
    return [FileSchema("labels", "Labelled questions for judge calibrate (JSON or JSONL).", labels_schema)]


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
    judged_by = [with_value(name) for field in ("question", "reference", "rubric") for name in FIELD_NAMES[field]]
    of_a_kind: JsonSchema = {"required": ["kind"], "properties": {"kind": {"enum": list(QUESTION_FIELDS)}}}
    looks_like_answer: JsonSchema = {"allOf": [{"anyOf": to_judge}, {"anyOf": judged_by}]}
    looks_like_row: JsonSchema = {"type": "object", "anyOf": [of_a_kind, looks_like_answer]}
    # Rows without a label are left out, so that nothing else in them is read.
    has_label: JsonSchema = {"anyOf": [with_value(name) for name in FIELD_NAMES["label"]]}
    answer: JsonSchema = {"if": has_label, "then": {**looks_like_answer, "properties": properties}}
    row: JsonSchema = {
        "type": "object",
        "if": of_a_kind,
        "then": _question_row(),
        "else": {"$ref": "#/$defs/Answer"},
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
        "$defs": {
            "Label": label,
            "Answer": answer,
            "Row": row,
            "Lists": lists,
            "LooksLikeRow": looks_like_row,
        },
    }
    return complete(schema, "Questions to a judge with labels: a row, a list of rows, or an object with such lists.")


def _question_row() -> JsonSchema:
    """Return the schema of rows with a `kind`: each kind has its fields and its labels."""
    rows: list[JsonSchema] = []
    for kind, fields in QUESTION_FIELDS.items():
        labels = "|".join("".join(f"[{char}{char.upper()}]" for char in label) for label in fields.labels)
        word: JsonSchema = {"type": "string", "pattern": rf"^\s*({labels})\s*$"}
        if kind == "correctness":
            word = {"anyOf": [word, {"type": "string", "pattern": r"^\s*[eE][rR][rR][oO][rR]\s*$"}]}
        label: JsonSchema = {
            "anyOf": [
                word,
                {"type": "array", "items": word},
                {"type": "object", "additionalProperties": word},
                {"type": "null"},
            ]
        }
        properties: dict[str, JsonSchema] = {"kind": {"const": kind}}
        properties |= {name: {"type": "string"} for name in fields.texts}
        properties |= {name: _optional(TEXTS) if name in fields.optional else TEXTS for name in fields.lists}
        if kind == "recall":
            updates: JsonSchema = {"type": "array", "items": {"type": "boolean"}}
            properties[UPDATES] = described(_optional(updates), "Whether each point is an update.")
        properties[LABEL] = described(label, f"One of: {', '.join(fields.labels)}; or several votes.")
        if fields.items:
            each: JsonSchema = _optional({"type": "array", "items": label})
            properties[LABELS] = described(each, f"One label for each of `{fields.items}`.")
        properties |= {
            name: described(_VALUE, _TEXTS[field]) for field in ("category", "cluster") for name in FIELD_NAMES[field]
        }
        needed = ["kind", *fields.texts, *(name for name in fields.lists if name not in fields.optional)]
        rows.append({"type": "object", "properties": properties, "required": needed})
    return {"oneOf": rows}


def _optional(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "null"}]}
