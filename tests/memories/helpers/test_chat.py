"""Messages as chat messages with roles."""

from __future__ import annotations

from assay.core.memory import Message, Turn
from assay.memories.helpers.chat import ChatRoles


def test_turns_keep_their_roles() -> None:
    """A message of several turns gives several chat messages, and the text of the message is not used."""
    turns = (Turn("user", "I moved."), Turn("assistant", "Where to?"))
    message = Message("D1:1", "user: I moved.\nassistant: Where to?", "user", turns=turns)
    assert ChatRoles().messages([message]) == [
        {"role": "user", "content": "I moved."},
        {"role": "assistant", "content": "Where to?"},
    ]


def test_the_first_speaker_is_the_user() -> None:
    """In all later calls too; the others are assistants, and each line has its name."""
    roles = ChatRoles()
    first = roles.messages([Message("1", "hi", "Ann"), Message("2", "hello", "Bob")])
    later = roles.messages([Message("3", "so", "Cyd"), Message("4", "yes", "Ann"), Message("5", "?", "")])
    assert [(each["role"], each["content"]) for each in [*first, *later]] == [
        ("user", "Ann: hi"),
        ("assistant", "Bob: hello"),
        ("assistant", "Cyd: so"),
        ("user", "Ann: yes"),
        ("assistant", "?"),
    ]
