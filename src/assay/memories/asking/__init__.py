"""Help for memories that ask the model: wordings, and replies that are read leniently and never guessed."""
