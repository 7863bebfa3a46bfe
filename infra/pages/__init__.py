"""Opening pages of the web: the guard, the way there, and what a page says."""
