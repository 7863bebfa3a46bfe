"""A backtest run: its plan, its limit of cost, its topic and its tables."""
