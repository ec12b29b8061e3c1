"""The thread that owns the model: order, crowds, losses."""

import asyncio
import threading

import pytest

from mphil.errors import UnknownName
from mphil.serve import service as module
from mphil.serve.requests import Refusal
from mphil.serve.service import ModelService
from tests.served import predictor


@pytest.fixture(scope="module")
def service():
    with ModelService(predictor()) as service:
        yield service


def test_it_is_ready_once_it_has_answered():
    with ModelService(predictor()) as fresh:
        assert not fresh.ready
        asyncio.run(fresh.warm_up())
        assert fresh.ready


def test_one_thread_does_all_the_work_and_the_loop_goes_on(service):
    begun, end = threading.Event(), threading.Event()

    async def main():
        def slow():
            begun.set()
            assert end.wait(30), "the event loop stood still"
            return threading.get_ident()

        first = asyncio.create_task(service.ask(slow))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        second = asyncio.create_task(service.ask(threading.get_ident))
        await asyncio.sleep(0.01)
        assert not second.done(), "it waits for its turn"
        end.set()
        return await asyncio.gather(first, second)

    workers = asyncio.run(main())
    assert workers[0] == workers[1] != threading.get_ident()


def test_a_crowd_is_told_to_come_back(service, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING_REQUESTS", 2)

    async def main():
        return await asyncio.gather(*(service.ask(lambda: 1) for _ in range(3)), return_exceptions=True)

    told = asyncio.run(main())
    assert told[:2] == [1, 1]
    assert isinstance(told[2], Refusal)
    assert told[2].status == 503
    assert asyncio.run(service.ask(lambda: 2)) == 2, "afterwards there is room again"


def test_what_a_question_raises_reaches_who_asked(service):
    def fail():
        raise UnknownName("thing", "x", [])

    with pytest.raises(UnknownName):
        asyncio.run(service.ask(fail))


def test_a_lost_process_is_replaced(service):
    before = service.predict(["CCO", "CCN"])
    service._pool._members[0]._process.kill()
    after = service.predict(["CCO", "CCN"])
    assert list(after.status) == ["ok", "ok"]
    assert after.probability == pytest.approx(before.probability)


def test_targets_are_known_by_name(service):
    assert service.task(None) == service.task("label") == 0
    with pytest.raises(UnknownName, match="did you mean label"):
        service.task("lable")
