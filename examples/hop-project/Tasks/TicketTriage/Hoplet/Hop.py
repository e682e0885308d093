"""TicketTriage: a model names the queue of a ticket, and code counts the signs of urgency."""

from typing import Any

QUEUES = ("billing", "technical", "account")
SIGNS = ("down", "outage", "immediately", "all users", "data loss", "deadline")


async def hop_triage(session: Any, input_data: dict[str, str]) -> tuple[str, Any]:
    """Return queue, urgency and whether a person must see the ticket now."""
    text = f"{input_data['subject']}\n{input_data['body']}"
    status, queue = await session.hop_get(
        f"Which queue takes this ticket: {', '.join(QUEUES)}? Answer with one word.",
        text,
        str,
        verifier=in_list,
    )
    if status != "OK":
        return status, queue
    signs = sum(sign in text.lower() for sign in SIGNS)
    urgency = min(5, 1 + signs * 2 + (input_data.get("plan") == "enterprise"))
    return "OK", {"queue": queue.strip().lower(), "urgency": urgency, "page_someone": urgency >= 4}


def in_list(task: str, context: str, result: str) -> tuple[str, str]:
    """A verifier that calls no model: the answer is one of the queues."""
    known = result.strip().lower() in QUEUES
    return ("OK", "") if known else ("FAIL", f"the answer must be one of {', '.join(QUEUES)}")
