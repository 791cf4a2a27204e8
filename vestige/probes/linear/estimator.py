"""The probe as a scikit-learn estimator, for plain arrays."""

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from vestige.probes.linear.adam import AdamRecipe, solve_by_adam
from vestige.probes.linear.solver import solve
from vestige.probes.problem import Features, log_probabilities, root_mean_square


class LinearProbe(ClassifierMixin, BaseEstimator):
    """Softmax regression with an elastic-net penalty; biases are free of it.

    - `l1`, `l2`: weights of the L1 norm and of the squared L2 norm of the weights, relative to the mean cross-entropy
      of scaled features.
    - `protocol`: "converged" (trained until certified to be within `tolerance` nats of the optimum, features scaled by
      one number) or "durrani" (Adam 1e-3, batches of 512, 10 epochs, no scaling).
    - `tolerance`: largest certified distance from the optimum.
    - `max_passes`: passes over the rows after which training ends in any case.
    - `random_state`: seed of the initial weights and the order of rows ("durrani").
    """

    def __init__(
        self,
        l1: float = 0.0,
        l2: float = 1e-3,
        *,
        protocol: str = "converged",
        tolerance: float = 1e-4,
        max_passes: int = 1000,
        random_state: int = 0,
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.protocol = protocol
        self.tolerance = tolerance
        self.max_passes = max_passes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "LinearProbe":  # noqa: N803 (scikit-learn's names)
        """Train on rows X (n, width) and labels y (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float32)  # noqa: N806
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"a probe needs at least two classes, found 1 class: {self.classes_[0]}")
        features = Features(X)
        size = root_mean_square(features)
        self.scale_ = 1.0 / size if self.protocol == "converged" and size > 0 else 1.0
        scaled = features.scaled(self.scale_).resident()
        target = torch.from_numpy(labels.astype(np.int64)).unsqueeze(0)
        if self.protocol == "converged":
            fit = solve(
                scaled,
                target,
                len(self.classes_),
                [self.l1],
                [self.l2],
                tolerance=self.tolerance,
                max_passes=self.max_passes,
            )
        elif self.protocol == "durrani":
            recipe = AdamRecipe(l1=self.l1, l2=self.l2)
            fit = solve_by_adam([scaled], target, len(self.classes_), recipe, [self.random_state])[0]
        else:
            raise ValueError(f"protocol should be 'converged' or 'durrani', found {self.protocol!r}")
        self.fit_ = fit
        self.coef_ = (fit.weights[0, :-1] * self.scale_).T.numpy()
        self.intercept_ = fit.weights[0, -1].numpy()
        self.objective_ = float(fit.objective[0])
        self.gap_ = float(fit.gap[0])
        self.n_iter_ = fit.passes
        return self

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Log-probabilities of every class, (n, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False)  # noqa: N806
        return log_probabilities(self.fit_, Features(X, self.scale_))[0].numpy()

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Probabilities of every class, (n, classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most probable class of every row."""
        check_is_fitted(self)
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]
