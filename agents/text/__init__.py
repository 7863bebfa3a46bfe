"""Text processing (zh and en): scripts, keywords, look-alike characters, word lists, prompt-injection detection."""
