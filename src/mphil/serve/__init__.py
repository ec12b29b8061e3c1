"""The local web page and its JSON API: one model, asked by a browser or a program."""

from mphil.serve.app import create_app, serve

__all__ = ["create_app", "serve"]
