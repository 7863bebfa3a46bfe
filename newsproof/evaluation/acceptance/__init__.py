"""``newsproof acceptance``: messages of every kind through the whole pipeline, measured beside docs/verification.md's targets."""
