"""One thread inside, the caller's number outside, whatever happens elsewhere."""

import threading

import pytest
import torch

from mphil.nn.threads import one_thread


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_nested():
    with one_thread():
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_after_an_error():
    with pytest.raises(ValueError, match="wrong"), one_thread():
        raise ValueError("wrong")
    assert torch.get_num_threads() == 2


def test_blocks_of_other_threads_do_not_matter():
    entered, leave, seen = threading.Event(), threading.Event(), []

    def work():
        with one_thread():
            entered.set()
            assert leave.wait(10)
            seen.append(torch.get_num_threads())

    other = threading.Thread(target=work)
    with one_thread():
        other.start()
        assert entered.wait(10)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    leave.set()
    other.join()
    assert seen == [1]
    assert torch.get_num_threads() == 2
