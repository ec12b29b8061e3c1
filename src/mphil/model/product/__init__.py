"""From a user's table to a bundle: train, compare with baselines, learn what to trust, describe it on a card."""

from mphil.model.product.assembly import Prepared, assemble
from mphil.model.product.build import Product, choosing_part, finished_product, prepare, prepare_again, train_product

__all__ = [
    "Prepared",
    "Product",
    "assemble",
    "choosing_part",
    "finished_product",
    "prepare",
    "prepare_again",
    "train_product",
]
