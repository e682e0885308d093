"""One small matter of each kind that can be put before a judge."""

from __future__ import annotations

from assay.scoring.questions import (
    AnswerQuestion,
    CorrectnessQuestion,
    EvidenceQuestion,
    InterferenceQuestion,
    JudgeQuestion,
    RecallQuestion,
    UpdateQuestion,
)

EXAMPLES: dict[str, JudgeQuestion] = {
    "answer": AnswerQuestion("Where does Ada live?", "Oslo", "In Oslo.", ("Ada moved to Oslo.",)),
    "evidence": EvidenceQuestion(("Ada moved to Oslo.", "Bob has a dog."), ("Ada lives in Oslo.",)),
    "recall": RecallQuestion(("Ada moved.", "Bob has a dog."), (True, False), ("Ada lives in Oslo.",)),
    "correctness": CorrectnessQuestion(("Ada moved.",), ("Bob has a dog.",), ("Ada lives in Oslo.", "Hello.")),
    "update": UpdateQuestion("Ada lives in Oslo.", ("Ada lives in Rome.",), ("Ada lives in Oslo.",)),
    "interference": InterferenceQuestion("A stranger sold umbrellas.", ("Ada lives in Oslo.",)),
}
