"""`python -m eval_framework.cli …` runs `assay memory eval …` with the same flags."""

from __future__ import annotations

import sys

from assay.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["memory", "eval"]
    main()
