"""One small matter of each kind that can be put before a judge."""

from __future__ import annotations

from assay.scoring.judging.matters import Answered, Changed, Cited, Interfering, Kept, Matter, Written

EXAMPLES: dict[str, Matter] = {
    "answer": Answered("Where does Ada live?", "Oslo", "In Oslo.", ("Ada moved to Oslo.",)),
    "evidence": Cited(("Ada moved to Oslo.", "Bob has a dog."), ("Ada lives in Oslo.",)),
    "recall": Kept(("Ada moved.", "Bob has a dog."), (True, False), ("Ada lives in Oslo.",)),
    "correctness": Written(("Ada moved.",), ("Bob has a dog.",), ("Ada lives in Oslo.", "Hello.")),
    "update": Changed("Ada lives in Oslo.", ("Ada lives in Rome.",), ("Ada lives in Oslo.",)),
    "interference": Interfering("A stranger sold umbrellas.", ("Ada lives in Oslo.",)),
}
