"""News into cases: admission, repeats, earlier claims, and what other workers hold open."""
