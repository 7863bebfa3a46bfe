"""The command line. A command imports its implementation when it runs."""
