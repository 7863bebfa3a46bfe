"""What a trader would have earned by the signals of a run, and how prices moved around them; docs/profit.md."""
