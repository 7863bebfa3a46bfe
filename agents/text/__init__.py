"""Text processing (zh and en): scripts, keywords, amounts, hosts, the grammar of denial, word lists, prompt-injection detection."""
