"""Fine-tuning settings as data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """How a model is fine-tuned; the defaults are mosbach2020's, Table 3."""

    rate: float = 2e-5
    epochs: int = 3
    batch: int = 32
    warmup: float = 0.1
    """Share of the steps over which the rate rises linearly; it stays constant afterwards."""
    decay: float = 0.01
    """Weight decay; biases and norms are spared."""
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    clip: float = 1.0
    """Largest norm of the gradient."""
    max_tokens: int = 128
    """Longer sentences are cut."""
