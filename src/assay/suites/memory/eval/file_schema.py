"""JSON Schemas of sample files, made from the structs of `sample_schema.py` and `halumem.py`."""

from __future__ import annotations

from assay.files.json_schema import FileSchema, JsonSchema, derive, with_value
from assay.suites.memory.eval.halumem import HaluMemUser
from assay.suites.memory.eval.sample_schema import CHECKPOINTS, POINTS, BlockRecord, CheckpointRecord, SampleRecord

_TRUTH: JsonSchema = {
    # The reader takes a text in any case. An editor has no flag for that.
    "anyOf": [
        {"type": ["boolean", "null"]},
        {"type": "string", "pattern": r"^\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])?\s*$"},
    ]
}
_POINT_TEXTS = {
    "BlockRecord.session_id": "The session that the points are about.",
    "BlockRecord.memory_points": "The points.",
    "PointRecord.memory_id": "Id of the point, for the evidence of questions.",
    "PointRecord.memory_content": "What a memory should keep.",
    "PointRecord.memory_source": "interference: no memory should keep it. Any other text has no effect.",
    "PointRecord.is_update": "true: the point replaces original_memories.",
    "PointRecord.original_memories": "Texts that the point replaces.",
}
_CHECKPOINT_TEXTS = {
    "CheckpointRecord.checkpoint_id": "Unique in the sample.",
    "CheckpointRecord.covered_sessions": "The checkpoint runs after the last of these sessions.",
    "CheckpointRecord.questions": "The questions.",
    "QuestionRecord.question": "The question.",
    "QuestionRecord.answer": "Reference answer. No memory and no model receives it.",
    "QuestionRecord.evidence": "Points or images that contain the answer.",
    "QuestionRecord.question_type_abbrev": "Scores are grouped by it.",
    "QuestionRecord.difficulty": "Scores are grouped by it.",
    "QuestionRecord.date": "The day on which the question is asked. Memories get it.",
}


def file_schemas() -> list[FileSchema]:
    """Return the schemas of this suite's files."""
    return [
        FileSchema("memory-eval", "Samples of memory eval (JSON, or a line of JSONL).", sample_schema),
        FileSchema("halumem", "Users in HaluMem's schema (JSON, or a line of JSONL).", halumem_schema),
        FileSchema("memory-eval-points", f"A line of {POINTS}, the points of a sample.", points_schema),
        FileSchema(
            "memory-eval-checkpoints",
            f"A line of {CHECKPOINTS}, the questions of a sample.",
            checkpoints_schema,
        ),
    ]


def sample_schema() -> JsonSchema:
    """Return the schema of a sample, or of a list of samples."""
    schema = derive(
        SampleRecord | list[SampleRecord],
        "A sample with sessions, memory points and questions, or a list of samples.",
        texts={
            "SampleRecord.sample_id": "Unique across all files. Default: uuid.",
            "SampleRecord.uuid": "Default: sample_id.",
            "SampleRecord.sessions": "The sessions, in order.",
            "SessionRecord._v2_session_id": "Unique in the sample. session_id means the same.",
            "SessionRecord.session_id": "Unique in the sample.",
            "SessionRecord.dialogue": "The turns, in order.",
            "SessionRecord.memory_points": "Points of this session. They come before those beside the sessions.",
            "TurnRecord.role": "Who speaks: user or assistant.",
            "TurnRecord.content": "What is said. Optional for a turn with attachments.",
            "TurnRecord.attachments": "Images that the turn shows.",
            **{path: text for path, text in _POINT_TEXTS.items() if path.startswith("PointRecord.")},
        },
        schemas={"PointRecord.is_update": _TRUTH},
    )
    definitions = schema["$defs"]
    # Points and questions may be in files of their own, so the struct of a sample does not have them.
    definitions |= points_schema()["$defs"] | checkpoints_schema()["$defs"]
    sample = definitions["SampleRecord"]
    sample["properties"] |= {
        "memory_points": _list_of("BlockRecord", "Points by session."),
        "qa_checkpoints": _list_of("CheckpointRecord", "Questions, and the sessions after which they are asked."),
    }
    sample["anyOf"] = [with_value("sample_id"), with_value("uuid")]
    definitions["SessionRecord"]["anyOf"] = [with_value("_v2_session_id"), with_value("session_id")]
    definitions["TurnRecord"]["anyOf"] = [
        with_value("content"),
        {"required": ["attachments"], "properties": {"attachments": {"type": "array", "minItems": 1}}},
    ]
    return schema


def halumem_schema() -> JsonSchema:
    """Return the schema of a user of HaluMem, or of a list of users."""
    return derive(
        HaluMemUser | list[HaluMemUser],
        "A user of HaluMem with sessions, memory points and questions, or a list of users.",
        texts={
            "HaluMemUser.uuid": "Unique across all files.",
            "HaluMemUser.sessions": "The sessions, in order.",
            "HaluMemSession.dialogue": "The turns, in order.",
            "HaluMemSession.start_time": "The date of turns that have none.",
            "HaluMemSession.end_time": "The date of the questions. Memories get it.",
            "HaluMemSession.memory_points": "The points of this session.",
            "HaluMemSession.questions": "Asked after this session.",
            "HaluMemSession.is_generated_qa_session": "true: the session is inserted, and nothing of it is scored.",
            "HaluMemPoint.memory_content": "What a memory should keep.",
            "HaluMemPoint.memory_source": "interference: no memory should keep it. Any other text has no effect.",
            "HaluMemPoint.is_update": "true: the point replaces original_memories.",
            "HaluMemPoint.original_memories": "Texts that the point replaces.",
            "HaluMemEvidence.memory_content": "The text of a point of this session or an earlier one.",
            "HaluMemQuestion.answer": "Reference answer. No memory and no model receives it.",
        },
        schemas={"HaluMemPoint.is_update": _TRUTH},
    )


def points_schema() -> JsonSchema:
    """Return the schema of a row with the points of one sample, in the older layout."""
    schema = derive(
        BlockRecord,
        "The points of one sample.",
        texts=_POINT_TEXTS,
        schemas={"PointRecord.is_update": _TRUTH},
    )
    return _row_of_sample(schema, "BlockRecord", ("memory_sessions", "memory_points"))


def checkpoints_schema() -> JsonSchema:
    """Return the schema of a row with the checkpoints of one sample, in the older layout."""
    schema = derive(CheckpointRecord, "The questions of one sample.", texts=_CHECKPOINT_TEXTS)
    schema["$defs"]["EvidenceRecord"]["anyOf"] = [with_value("memory_id"), with_value("image_id")]
    return _row_of_sample(schema, "CheckpointRecord", ("checkpoints", "qa_checkpoints"))


def _row_of_sample(schema: JsonSchema, struct: str, keys: tuple[str, str]) -> JsonSchema:
    """Turn the schema of an item into that of a row with a list of items under one of two keys."""
    del schema["$ref"]
    identifier = {"type": ["string", "integer", "null"], "description": "The sample that the row belongs to."}
    return {
        **schema,
        "type": "object",
        "properties": {
            "sample_id": identifier,
            "uuid": identifier,
            **{key: _list_of(struct, "The items of the sample.") for key in keys},
        },
        "allOf": [
            {"anyOf": [with_value("sample_id"), with_value("uuid")]},
            {"anyOf": [with_value(key) for key in keys]},
        ],
    }


def _list_of(struct: str, text: str) -> JsonSchema:
    return {"type": ["array", "null"], "items": {"$ref": f"#/$defs/{struct}"}, "description": text}
