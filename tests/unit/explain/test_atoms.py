from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mphil.errors import UnknownName, UsageError
from mphil.explain.atoms import gradient_scores, node_scores, random_scores, relative, ways
from mphil.methods.base import Method
from mphil.methods.erm import ERM
from mphil.nn.importance import decision_margin
from mphil.task import Task
from tests.graphs import TASKS, random_store, small_encoder, whole

from .conftest import built

STEP = 1e-6


def margins(method, batch) -> torch.Tensor:
    with torch.no_grad():
        return decision_margin(method.predict(batch), method.task)


class TestGradient:
    @pytest.mark.parametrize("name", ["erm", "mphil", "gsat", "grea"])
    @pytest.mark.parametrize("kind", ["multiclass", "binary", "multitask"])
    def test_is_the_slope_along_the_features_of_each_node(self, name, kind):
        """Floats go into the first layer as they are: finite differences of the input are the oracle."""
        store = random_store(kind, graphs=4, nodes="float")
        method = built(name, store, TASKS[kind]).double()
        batch = whole(store, torch.float64)
        found = gradient_scores(method, batch)
        for node in range(len(batch.x)):
            ends = []
            for step in (STEP, -STEP):
                moved = batch.clone()
                moved.x = batch.x.clone()
                moved.x[node] *= 1 + step
                ends.append(margins(method, moved).sum())
            assert found[node].item() == pytest.approx(float(ends[0] - ends[1]) / (2 * STEP), rel=1e-4, abs=1e-7)

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            *((name, "gin") for name in ("erm", "mphil", "gsat", "disc")),
            *(("erm", kind) for kind in ("gcn", "gat", "gps", "torch_geometric.nn:GraphSAGE")),
        ],
    )
    def test_scores_of_a_graph_add_up_to_the_slope_along_its_embedding(self, name, kind, molecules):
        """Codes are embedded by tables, also where nodes that look alike share a row: all are stretched at once."""
        method = built(name, molecules, kind=kind).double()
        batch = whole(molecules[:6], torch.float64)
        found = gradient_scores(method, batch)
        sums = torch.zeros(6, dtype=found.dtype).index_add(0, batch.batch, found)
        width = sum(molecules.node_features.sizes)
        tables = [value for value in method.parameters() if value.shape[0] == width]
        assert tables
        ends = []
        for step in (STEP, -STEP):
            with torch.no_grad():
                for table in tables:
                    table.mul_(1 + step)
            ends.append(margins(method, batch))
            with torch.no_grad():
                for table in tables:
                    table.div_(1 + step)
        slope = (ends[0] - ends[1]) / (2 * STEP)
        torch.testing.assert_close(sums.double(), slope, rtol=1e-4, atol=1e-6)

    def test_leaves_no_trace(self, molecules):
        method, batch = built("mphil", molecules), whole(molecules)
        before = method.predict(batch)
        first, second = gradient_scores(method, batch), gradient_scores(method, batch)
        torch.testing.assert_close(first, second)
        assert not first.requires_grad
        assert torch.equal(method.predict(batch), before)
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in method.modules())
        assert all(parameter.grad is None for parameter in method.parameters())

    def test_a_method_that_embeds_parts_anew_is_refused(self, molecules):
        method = built("gil", molecules)
        with pytest.raises(UsageError, match="gil embeds parts"):
            node_scores(method, whole(molecules), "gradient")
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in method.modules())


class TestRandom:
    def test_a_graph_has_the_same_draws_in_every_batch(self, molecules):
        together = random_scores(whole(molecules), seed=4)
        alone = [random_scores(molecules.batch(torch.tensor([i])), seed=4) for i in range(len(molecules))]
        assert torch.equal(torch.cat(alone), together)
        assert not torch.equal(random_scores(whole(molecules), seed=5), together)
        assert together.min() >= 0
        assert together.max() < 1


class TestWays:
    def test_the_methods_own_way_comes_first(self, molecules):
        assert ways(built("mphil", molecules)) == ("own", "contribution", "gradient", "random")
        assert ways(built("gsat", molecules)) == ("own", "gradient", "random")

    def test_a_method_that_does_not_explain_itself_gets_gradients(self, molecules):
        class Silent(ERM):
            node_importance = Method.node_importance

        torch.manual_seed(0)
        method = Silent(Task("binary", 1, "roc_auc"), small_encoder(molecules)).eval()
        assert ways(method) == ("gradient", "random")
        batch = whole(molecules)
        torch.testing.assert_close(node_scores(method, batch), gradient_scores(method, batch))

    def test_each_way_is_what_it_says(self, molecules):
        method, batch = built("mphil", molecules), whole(molecules)
        torch.testing.assert_close(node_scores(method, batch), method.node_importance(batch).detach())
        torch.testing.assert_close(node_scores(method, batch, "contribution"), method.node_contribution(batch))
        assert torch.equal(node_scores(method, batch, "random", seed=3), random_scores(batch, 3))

    def test_asked_in_evaluation_mode(self, molecules):
        method = built("mphil", molecules, dropout=0.5).train()
        first, second = (node_scores(method, whole(molecules)) for _ in range(2))
        assert torch.equal(first, second)
        assert method.training

    def test_what_is_not_there_is_refused(self, molecules):
        with pytest.raises(UnknownName, match="did you mean gradient"):
            node_scores(built("erm", molecules), whole(molecules), "gradien")
        with pytest.raises(UsageError, match="erm has no node scores of the kind 'contribution'; use own, gradient"):
            node_scores(built("erm", molecules), whole(molecules), "contribution")


class TestRelative:
    @settings(max_examples=40)
    @given(arrays.arrays(np.float64, st.integers(1, 12), elements=st.floats(-100, 100, width=16)), st.integers(1, 11))
    def test_between_the_least_and_the_most_of_each_graph(self, values, cut):
        ptr = torch.tensor([0, min(cut, len(values)), len(values)])
        found = relative(torch.from_numpy(values), ptr).numpy()
        for part, before in ((found[:cut], values[:cut]), (found[cut:], values[cut:])):
            if not len(part):
                continue
            spread = before.max() - before.min()
            if spread > 1e-5 * np.abs(before).max():
                np.testing.assert_allclose(part, (before - before.min()) / spread, atol=1e-12)
            else:
                assert not part.any()

    def test_rounding_makes_nobody_stand_out(self):
        assert not relative(torch.tensor([0.7, 0.7 + 1e-7, 0.7]), torch.tensor([0, 3])).any()
