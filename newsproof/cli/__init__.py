"""The command line. Each command's work is imported when it runs."""
