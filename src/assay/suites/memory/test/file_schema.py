"""JSON Schemas of files of conversations, one for each built-in data set, made from the structs of its loader."""

from __future__ import annotations

from assay.files.json_schema import TEXT_OR_NULL, FileSchema, JsonSchema, derive
from assay.suites.memory.test.loaders.locomo import LocomoMessage, LocomoSample
from assay.suites.memory.test.loaders.longmemeval import LongMemEvalEntry
from assay.suites.memory.test.loaders.plain import PlainConversation

_EVIDENCE = "Messages that contain the answer: D1:3 is the third message of the first session."


def file_schemas() -> list[FileSchema]:
    """Return the schemas of this suite's files."""
    return [
        FileSchema("conversations", "Your own conversations, --dataset plain (JSON).", plain_schema),
        FileSchema("locomo", "Conversations in the schema of LoCoMo, --dataset locomo (JSON).", locomo_schema),
        FileSchema("longmemeval", "Entries of LongMemEval, --dataset longmemeval (JSON).", longmemeval_schema),
    ]


def plain_schema() -> JsonSchema:
    """Return the schema of the data set `plain`."""
    schema = derive(
        PlainConversation | list[PlainConversation],
        "A conversation with questions, or a list of conversations.",
        texts={
            "PlainConversation.id": "Name of the conversation. Default: its number.",
            "PlainConversation.sessions": "The sessions, in order.",
            "PlainConversation.questions": "The questions.",
            "PlainSession.id": "Name of the session.",
            "PlainSession.date": "Any text. The memory gets it with every message.",
            "PlainSession.messages": "The messages, in order.",
            "PlainMessage.speaker": "Who speaks. `role` means the same.",
            "PlainMessage.text": "What is said. `content` means the same.",
            "PlainMessage.role": "Who speaks, as chats call it.",
            "PlainMessage.content": "What is said, as chats call it.",
            "PlainQuestion.question": "The question.",
            "PlainQuestion.answer": "Reference answer. No memory and no model receives it.",
            "PlainQuestion.evidence": f"{_EVIDENCE} A question without evidence needs --ask at-end or both.",
            "PlainQuestion.date": "The day on which the question is asked. The memory gets it.",
            "PlainQuestion.category": "Anything. Scores are grouped by it.",
            "PlainQuestion.abstention": "true if the conversation has no answer, so that the right reply says so.",
        },
    )
    # The loader checks this across keys: a message needs a text under one of its two names.
    schema["$defs"]["PlainMessage"]["anyOf"] = [
        {"required": ["text"], "properties": {"text": {"type": "string"}}},
        {"required": ["content"], "properties": {"content": {"type": "string"}}},
    ]
    return schema


def locomo_schema() -> JsonSchema:
    """Return the schema of LoCoMo. Sessions are keys of `conversation`: session_1, session_2 and so on."""
    schema = derive(
        LocomoSample | list[LocomoSample],
        "A sample of LoCoMo, or a list of samples.",
        texts={
            "LocomoSample.sample_id": "Name of the conversation.",
            "LocomoSample.conversation": "session_N has the messages, session_N_date_time the date of a session.",
            "LocomoSample.qa": "The questions.",
            "LocomoQuestion.question": "The question.",
            "LocomoQuestion.answer": "Reference answer. No memory and no model receives it.",
            "LocomoQuestion.category": "1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial.",
            "LocomoQuestion.evidence": _EVIDENCE,
        },
    )
    message = derive(
        LocomoMessage,
        "",
        texts={
            "LocomoMessage.dia_id": "Place of the message, such as D1:3. It must be right.",
            "LocomoMessage.query": "Search query by which the image was found.",
            "LocomoMessage.blip_caption": "Caption of the image.",
        },
    )
    schema["$defs"]["LocomoMessage"] = message["$defs"]["LocomoMessage"]
    messages: JsonSchema = {"type": ["array", "null"], "items": {"$ref": "#/$defs/LocomoMessage"}}
    conversation = schema["$defs"]["LocomoSample"]["properties"]["conversation"]
    conversation["patternProperties"] = {
        r"^session_[1-9]\d{0,8}$": messages,
        r"^session_[1-9]\d{0,8}_date_time$": TEXT_OR_NULL,
    }
    return schema


def longmemeval_schema() -> JsonSchema:
    """Return the schema of LongMemEval."""
    return derive(
        LongMemEvalEntry | list[LongMemEvalEntry],
        "An entry of LongMemEval, or a list of entries.",
        texts={
            "LongMemEvalEntry.question_id": "Name of the entry. It ends with _abs if the chats have no answer.",
            "LongMemEvalEntry.answer": "Reference answer. No memory and no model receives it.",
            "LongMemEvalEntry.haystack_sessions": "The chats. Ids and dates are lists of the same length.",
            "LongMemEvalEntry.answer_session_ids": "The sessions that contain the answer.",
            "LongMemEvalEntry.question_date": "The day on which the question is asked. The memory gets it.",
            "LongMemEvalTurn.has_answer": "true: the message contains the answer.",
        },
    )
