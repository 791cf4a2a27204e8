"""Base against tuned on the same items: differences, intervals, tests, and what they add up to."""
