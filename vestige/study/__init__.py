"""Plans, runs, caches and resumes all of it. Together with the CLI the only place that sees everything."""
