"""Effects: the calls that steps request. Each is made once, paid, limited and recorded."""
