"""Messages of a conversation as chat messages with roles, for memories that take those.

chat = ChatRoles()
chat.messages([Message("D1:1", "hello", "Ann")])   # [{"role": "user", "content": "Ann: hello"}]
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import Message

USER, ASSISTANT = "user", "assistant"


class ChatRoles:
    """Gives every message a role.

    A message with turns gives its turns, each with its own role. A conversation of named speakers has no roles: the
    first speaker is the user, all others are assistants, and each text begins with the speaker's name.
    """

    def __init__(self) -> None:
        self._user: str | None = None

    def messages(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """Return the chat messages, in order. Call it with all messages of a conversation, also over several calls."""
        chat: list[dict[str, str]] = []
        for message in messages:
            if message.turns:
                chat += [{"role": turn.role, "content": turn.text} for turn in message.turns]
                continue
            if self._user is None:
                self._user = message.speaker
            role = USER if message.speaker == self._user else ASSISTANT
            chat.append({"role": role, "content": message.line})
        return chat
