"""The `dataset_statistics` of a conversation, by the keys and the order of the format."""

from __future__ import annotations

from typing import Any

from assay.suites.memory_test.conversation import Conversation


def statistics_of(conversation: Conversation) -> dict[str, Any]:
    """Of the whole conversation, whichever categories are asked. A dialog is one message."""
    valid, invalid = len(conversation.questions), conversation.invalid
    return {
        "total_sessions": len(conversation.sessions),
        "total_dialogs": sum(len(session.messages) for session in conversation.sessions),
        "total_questions": valid + len(invalid),
        "valid_questions": valid,
        "invalid_questions": [
            {"question_index": each.question_index, "question": each.question, "reason": each.reason}
            for each in invalid
        ],
    }
