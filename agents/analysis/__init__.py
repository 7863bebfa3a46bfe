"""The figures of the research chat: data blocks, indicators, and the check for unsupported numbers. Pure."""
