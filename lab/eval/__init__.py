"""``./run eval``: measures the verification on judged cases."""
