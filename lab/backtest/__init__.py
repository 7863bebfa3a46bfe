"""The backtest put to the test at length."""
