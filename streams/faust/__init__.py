"""All that knows Faust: the app, the step channels, what may be committed and when."""
