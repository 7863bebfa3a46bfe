"""Reading text (zh and en): scripts, keywords, look-alike characters, word lists, and words that try to steer a model."""
