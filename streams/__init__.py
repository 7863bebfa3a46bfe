"""The runtime: everything between the log and the steps. ``composition`` builds a worker, ``worker`` runs it."""
