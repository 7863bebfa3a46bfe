"""Everything that depends on Faust: the app, the step channels, and which offsets are committed and when."""
