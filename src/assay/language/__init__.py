"""The small languages in files: templates, conditions, patterns, prompts. Each has bounds in time and memory."""
