"""Steps of a study: pure functions, named by a hash of what goes into them; their results are folders of the cache."""
