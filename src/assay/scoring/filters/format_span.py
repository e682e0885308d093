"""Named entities in one form: `person: Ada, Bo $$ places: Rome` is `per: ada $ per: bo $ loc: rome`."""

from __future__ import annotations

import re

from assay.scoring.filters import Filter

_LABELS = {
    "person": "PER",
    "location": "LOC",
    "organization": "ORG",
    "counties": "LOC",
    "places": "LOC",
    "people": "PER",
    "persons": "PER",
    "company": "ORG",
    "country": "LOC",
    "continent": "LOC",
    "time": "DATE",
    "date": "DATE",
    "per": "PER",
    "loc": "LOC",
    "org": "ORG",
}
_NAMED = [(re.compile(rf"\b{name}\s*:"), f"{label}:") for name, label in _LABELS.items()]
_SPAN = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")


def build() -> Filter:
    """Takes no options."""
    return lambda replies: [_formatted(reply) for reply in replies]


def _formatted(reply: str) -> str:
    """All labels with their entities, one by one; an entity "none" is left out."""
    text = reply.lower()
    for pattern, label in _NAMED:
        text = pattern.sub(label, text)
    text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    spans = [
        (label.lower(), entity.strip()) for label, all_ in _SPAN.findall(text) for entity in all_.split(",")
    ]
    return " $ ".join(f"{label}: {entity}" for label, entity in spans if entity.lower() != "none")
