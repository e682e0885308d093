"""The task's own metric. task.yaml names it: `metric: !function metrics.close_enough`.

After an edit, repeat the run command: assay applies the new metric to the saved replies and calls no model.
"""

import re


def close_enough(references: list[str], predictions: list[str], percent: float = 10) -> float:
    """Return 1.0 if the first number of the answer is at most `percent` percent away from the target, else 0.0.

    assay calls the function once for each line of the data. Both lists have one item then.
    """
    target = float(references[0])
    number = re.search(r"\d+(\.\d+)?", predictions[0])
    if number is None:
        # An answer without a number is wrong. An exception here would leave the line out of the mean instead.
        return 0.0
    return 1.0 if abs(float(number[0]) - target) <= abs(target) * percent / 100 else 0.0
