"""Parts that several memories share: search indexes, lists of messages, prompts to the model."""
