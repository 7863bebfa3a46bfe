"""Commands that run the pipeline, or a part of it."""
