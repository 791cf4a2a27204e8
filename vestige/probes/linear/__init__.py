"""Softmax regressions and networks with one hidden layer, each by its protocol of training."""
