"""Statistics of paired runs: pure functions over arrays, checked against scipy in the tests.

Cases of one day or of one story are not independent observations. So every measure of uncertainty works on *blocks of time*,
never on cases.
"""
