"""The data of a task: files, folders, data sets by name, and what a task's own code makes of them."""
