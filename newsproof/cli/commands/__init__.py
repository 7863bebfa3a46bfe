"""The commands, a module a group. Only names and options are loaded here; what they do is imported when they run."""
