"""Publishing of signals to the topic ``signals``, exactly once."""
