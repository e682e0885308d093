"""Constructs the labelled questions behind `assay judge calibrate --labels built-in`.

`python -m benchmarks.labelled` writes them. A program with a fixed seed puts invented facts into sentences, in English
and in Chinese. The label of a question follows from its construction: a memory that says the fact in another frame
covers it; one that has another value, another person, a plan or a vague word does not. No judge was asked, and no
answer of a real system was read for it.

`english.py` and `chinese.py` have the sentences, `facts.py` fills them, `kinds.py` has the constructions.
"""
