"""Writes numbers.json: what the real harness makes of some values. Needs `pip install 'lm_eval[api]'`.

python tests/golden/scoring/make.py > tests/golden/scoring/numbers.json
"""

import contextlib
import json
import os
import random
import sys
import warnings
from importlib.metadata import version

os.environ["DISABLE_MULTIPROC"] = "1"
warnings.simplefilter("ignore")

from lm_eval.api import metrics  # noqa: E402
from lm_eval.api.registry import get_aggregation  # noqa: E402

WORDS = "the a cat sat on mat Mat. dog, runs! 3 14 it's (hi) ü 猫 $5 ...".split()
FEW, MANY = 2000, 100_000
stream = random.Random(7)


def text():
    return " ".join(stream.choice(WORDS) for _ in range(stream.randint(1, 9)))


def chances(count):
    raw = [stream.random() for _ in range(count)]
    return [one / sum(raw) for one in raw]


def labels(kinds, count):
    return [[stream.choice(kinds), stream.choice(kinds)] for _ in range(count)]


CASES = [
    ("mean", [stream.random() for _ in range(50)], FEW),
    ("mean", [float(stream.random() < 0.3) for _ in range(50)], FEW),
    ("median", [stream.gauss(0, 1) for _ in range(40)], FEW),
    ("median", [float(stream.random() < 0.5) for _ in range(9)], MANY),
    ("nanmean", [stream.random() if stream.random() < 0.7 else None for _ in range(300)], FEW),
    ("perplexity", [-20 * stream.random() for _ in range(300)], FEW),
    ("perplexity", [-3 * stream.random() for _ in range(11)], MANY),
    ("weighted_perplexity", [[-300 * stream.random(), stream.randint(1, 90)] for _ in range(30)], FEW),
    ("bits_per_byte", [[-300 * stream.random(), stream.randint(1, 90)] for _ in range(30)], FEW),
    ("f1", labels([0, 1], 40), FEW),
    ("f1", labels([1, 2], 8), FEW),
    ("f1", labels([0, 1], 12), MANY),
    ("matthews_corrcoef", labels([0, 1], 12), FEW),
    ("matthews_corrcoef", labels([0, 1, 2, 3, 4], 60), FEW),
    ("matthews_corrcoef", labels(["a", "b", "c"], 30), FEW),
    ("brier_score", [[stream.randrange(4), chances(4)] for _ in range(30)], FEW),
    ("brier_score", [[stream.randrange(11), chances(11)] for _ in range(30)], FEW),
    ("bypass", [None] * 3, FEW),
]
for name in ("bleu", "chrf", "chrf++", "ter"):
    CASES.append((name, [[text(), text()] for _ in range(12)], 100))
    CASES.append((name, [[[text() for _ in range(stream.randint(1, 3))], text()] for _ in range(6)], 100))


def case(name, values, draws):
    given = [float("nan") if value is None else value for value in values] if name == "nanmean" else values
    aggregation = get_aggregation(name)
    estimate = metrics.stderr_for_metric(aggregation, draws)
    with contextlib.redirect_stdout(sys.stderr):
        value, error = float(aggregation(given)), estimate and float(estimate(given))
    return {"aggregation": name, "draws": draws, "value": value, "stderr": error, "values": values}


packages = ("lm_eval", "scikit-learn", "sacrebleu", "numpy")
head = json.dumps({package: version(package) for package in packages})
rows = ",\n".join(json.dumps(case(*one), ensure_ascii=False) for one in CASES)
print(f'{{"versions": {head}, "cases": [\n{rows}\n]}}')
