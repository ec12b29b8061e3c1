"""Training epochs of chemprop's default network, asked for one by one; runs in an environment that has chemprop.

Standard input: a JSON line with SMILES, labels and the batch size, then a line for each epoch. Standard output: a JSON
line with versions once the graphs are cached, then the processor seconds of each epoch. No Lightning: a plain loop over
chemprop's own loader, network, loss and Adam, so that nothing but the network and its batches is timed.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version

import torch
from chemprop import data, models, nn


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    given = json.loads(sys.stdin.readline())
    points = [
        data.MoleculeDatapoint.from_smi(text, [label]) for text, label in zip(given["smiles"], given["y"], strict=True)
    ]
    dataset = data.MoleculeDataset(points)
    dataset.cache = True
    loader = data.build_dataloader(dataset, given["batch"], seed=0)
    network = models.MPNN(nn.BondMessagePassing(), nn.NormAggregation(), nn.BinaryClassificationFFN())
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    network.train()
    print(json.dumps({name: version(name) for name in ("chemprop", "torch")}), flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        for graphs, _, _, targets, weights, below, above in loader:
            optimizer.zero_grad()
            said = network.predictor.train_step(network.fingerprint(graphs))
            network.criterion(said, targets, targets.isfinite(), weights, below, above).backward()
            optimizer.step()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
