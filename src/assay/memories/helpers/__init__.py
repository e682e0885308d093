"""Parts that several memories share: search indexes, lists of messages, questions to the model."""
