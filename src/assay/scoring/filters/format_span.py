"""Filter `format_span`: named entities in one form.

`person: Ada, Bo $$ places: Rome` becomes `per: ada $ per: bo $ loc: rome`.
"""

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
_LABEL_PATTERNS = [(re.compile(rf"\b{name}\s*:"), f"{label}:") for name, label in _LABELS.items()]
_SPAN = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")


def build() -> Filter:
    """Return the filter. There are no options."""
    return lambda replies: [_formatted(reply) for reply in replies]


def _formatted(reply: str) -> str:
    """Return each entity with its label. Entities named "none" are left out."""
    text = reply.lower()
    for pattern, label in _LABEL_PATTERNS:
        text = pattern.sub(label, text)
    text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    spans = [(label.lower(), entity.strip()) for label, names in _SPAN.findall(text) for entity in names.split(",")]
    return " $ ".join(f"{label}: {entity}" for label, entity in spans if entity.lower() != "none")
