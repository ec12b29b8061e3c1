"""Write the golden losses anew: `python -m tests.golden.update`, or with the names of the methods that changed."""

from __future__ import annotations

import json
import sys

import torch

from mphil.methods import METHODS
from tests.golden.losses import FILE, kinds, losses_after_training, read


def main() -> None:
    torch.set_num_threads(1)
    golden = {name: values for name, values in read().items() if name in METHODS}
    for name in sys.argv[1:] or METHODS:
        golden[name] = {kind: losses_after_training(name, kind) for kind in kinds(METHODS[name])}
        print(name, golden[name])
    FILE.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
