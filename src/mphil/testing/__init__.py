"""For authors of methods: the contract of `Method` as checks that run. Begin with `check_method`."""

from mphil.testing.checks import Check, check_method, method_checks
from mphil.testing.trial import random_graphs

__all__ = ["Check", "check_method", "method_checks", "random_graphs"]
