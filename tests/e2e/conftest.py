"""A real browser for the modules that look at pages."""

import pytest

from tests.e2e.browser import launch


@pytest.fixture(scope="module")
def browser():
    with launch() as browser:
        yield browser
