"""Figures of the research chat: blocks of data, indicators, and numbers that no figure bears out. Pure."""
