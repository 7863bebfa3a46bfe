"""The long-running processes, what they say of their health, and the tree that keeps them running."""
