"""The objects that start-up made are not looked through again and again while requests wait."""

import gc

from tests.served import predictor, served


def test_what_start_up_made_is_left_out_of_collections():
    before = gc.get_freeze_count()
    with served(predictor()):
        assert gc.get_freeze_count() > 10_000
        assert len(gc.get_objects()) < gc.get_freeze_count()
    assert gc.get_freeze_count() <= before
