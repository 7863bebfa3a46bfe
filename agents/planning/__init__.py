"""What to look up next: the plan of a round, the tools that it may use, and what they answered."""
