"""The steps of the news pipeline, one file each; those that plan and retract lie in their own folders."""
