"""Commands that measure: replays, outcomes, labels."""
