"""The documents of tasks: finds and reads data files, and runs the task's `process_docs` on them."""
