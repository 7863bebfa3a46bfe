"""``newsproof eval``: the verification over judged cases."""
