"""Predictions do not depend on how they are batched, and leave the method as it was."""

import pytest
import torch
from tests.graphs import TASKS, small_encoder
from tests.toys import small_benchmark, with_labels, without_part

from mphil.graphs.loader import Loader
from mphil.methods import build_method
from mphil.training.metrics import score
from mphil.training.prediction import gather, predict_logits, probabilities, score_parts


def method_for(data, name="mphil"):
    torch.manual_seed(0)
    return build_method(name, data.task, small_encoder(data.store, dropout=0.5), {})


@pytest.mark.parametrize("kind", TASKS)
def test_logits_in_the_order_of_the_graphs(kind):
    data = small_benchmark(kind)
    method, graphs = method_for(data), torch.tensor([5, 2, 9, 40, 1])
    together = predict_logits(method, Loader(data.store, graphs, 5))
    assert together.shape == (5, data.task.n_outputs)
    one_by_one = torch.cat([predict_logits(method, Loader(data.store, graph, 1)) for graph in graphs.split(1)])
    torch.testing.assert_close(together, one_by_one)


@pytest.mark.parametrize("training", [True, False])
def test_the_method_is_left_as_it_was(training):
    data = small_benchmark()
    method = method_for(data).train(training)
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    logits = predict_logits(method, Loader(data.store, data.split.id_val, 4))
    assert method.training is training
    assert not logits.requires_grad
    assert all(torch.equal(before[name], tensor) for name, tensor in method.state_dict().items())
    with pytest.raises(ZeroDivisionError):
        gather(method, Loader(data.store, data.split.id_val, 4), lambda batch: 1 / 0)
    assert method.training is training


def test_probabilities():
    logits = torch.tensor([[0.0, 1.0, -2.0], [5.0, 5.0, 5.0]])
    torch.testing.assert_close(probabilities(logits, "multiclass"), logits.exp() / logits.exp().sum(1, keepdim=True))
    for kind in ("binary", "multitask"):
        torch.testing.assert_close(probabilities(logits, kind), 1 / (1 + (-logits).exp()))


def test_scores_of_parts():
    data = without_part(small_benchmark(), "id_test")
    y = data.store.y.clone()
    y[data.split.ood_val] = torch.nan
    data = with_labels(data, y)
    method = method_for(data)
    scores = score_parts(method, data, batch_size=7)
    assert list(scores) == ["train", "id_val", "id_test", "ood_val", "ood_test"]
    assert (scores["id_test"], scores["ood_val"]) == (None, None)
    graphs = data.split.train
    logits = method.eval().predict(data.store.batch(graphs)).detach()
    assert scores["train"] == score(logits, y[graphs], data.task)
    assert score_parts(method, data, 7, ("ood_test",)) == {"ood_test": scores["ood_test"]}
