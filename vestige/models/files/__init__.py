"""Where a model's files lie, and loading them: safetensors only, verified after loading."""
