"""The long-running processes, their health and metrics, and the process tree that keeps them running."""
