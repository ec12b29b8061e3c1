"""Methods: one file each. A new file in this folder appears everywhere by itself."""

from mphil.methods.base import METHODS, Losses, Method, Parts, Progress, build_method, evaluating, register

__all__ = ["METHODS", "Losses", "Method", "Parts", "Progress", "build_method", "evaluating", "register"]
