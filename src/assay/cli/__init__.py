"""The command line."""

import gc

# Imports make many objects and no garbage. Python's garbage collector runs after 700 new objects, which took an eighth
# of the time until the first request. This stands here, because it must come before the imports of `main`.
gc.set_threshold(100_000)
