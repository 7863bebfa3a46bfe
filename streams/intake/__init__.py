"""From news to cases: admission, deduplication, earlier claims, and open cases of other workers."""
