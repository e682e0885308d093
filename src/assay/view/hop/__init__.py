"""HOP's web View: the pages of a task, its batches, history and numbers, and the names of HOP's BaseService."""
