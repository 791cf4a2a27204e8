"""The probe on plain arrays keeps scikit-learn's contract."""

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from vestige.probes.linear.estimator import LinearProbe


@parametrize_with_checks([LinearProbe()])
def test_estimator_passes_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_probabilities_equal_those_of_logistic_regression():
    x, y = make_classification(400, 12, n_informative=6, n_classes=3, random_state=0)
    probe = LinearProbe(l2=1e-2, tolerance=1e-7).fit(x, y)
    scaled = x * probe.scale_
    peer = LogisticRegression(C=1 / (2 * 1e-2 * len(y)), tol=1e-10, max_iter=5000).fit(scaled, y)
    np.testing.assert_allclose(probe.predict_proba(x), peer.predict_proba(scaled), atol=2e-3)


def test_multiplying_all_features_changes_nothing():
    x, y = make_classification(300, 10, n_informative=5, n_classes=3, random_state=1)
    one = LinearProbe().fit(x, y).predict_proba(x)
    for factor in (0.5, 2.0):
        np.testing.assert_array_equal(LinearProbe().fit(x * factor, y).predict_proba(x * factor), one)
