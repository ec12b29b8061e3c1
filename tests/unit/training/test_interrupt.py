"""The first signal waits for a good moment, the second does not."""

import signal
import threading

import pytest

from mphil.training.interrupt import Interrupt


def raise_interrupt(number, frame):
    raise KeyboardInterrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_held_until_the_moment_comes(number):
    before = signal.signal(number, raise_interrupt)
    try:
        with Interrupt() as interrupt:
            interrupt.strike()
            signal.raise_signal(number)
            assert interrupt.held
            with pytest.raises(KeyboardInterrupt):
                interrupt.strike()
        assert signal.getsignal(number) is raise_interrupt
    finally:
        signal.signal(number, before)


def test_the_second_one_strikes_at_once():
    with Interrupt():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_signals_that_raise_nothing_are_left_alone(handler):
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with Interrupt():
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_come_back_after_an_error():
    with pytest.raises(ValueError, match="oh"), Interrupt():
        raise ValueError("oh")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_hold_nothing():
    seen = []

    def work():
        with Interrupt():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
