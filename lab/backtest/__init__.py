"""Long self-tests of the backtest."""
