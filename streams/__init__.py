"""The runtime: what happens between the log and the steps. ``worker`` puts it together."""
