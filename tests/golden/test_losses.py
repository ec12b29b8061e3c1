"""Three steps of every method end where they ended before, unless the numerics got a new version."""

from __future__ import annotations

import pytest

from mphil.methods import METHODS
from mphil.provenance import NUMERICS
from tests.golden.losses import COMMAND, REMEDY, digests, kinds, losses_after_training, read, read_history, same
from tests.golden.update import update

CASES = [pytest.param(name, kind, id=f"{name}-{kind}") for name in METHODS for kind in kinds(METHODS[name])]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_losses_after_three_steps(name, kind):
    golden = read()[1].get(name, {}).get(kind)
    if golden is None:
        pytest.skip(f"a new method has no golden losses yet: run `{COMMAND} {name}` and commit the files")
    found = losses_after_training(name, kind)
    assert same(found, golden), f"the losses were {golden} and are {found}; {REMEDY}"


def test_the_file_has_no_methods_that_are_gone():
    gone = sorted(read()[1].keys() - set(METHODS))
    assert not gone, f"run `{COMMAND}`"


def test_the_losses_are_those_that_the_present_numerics_always_gave():
    numerics, golden = read()
    assert numerics == NUMERICS, f"the golden losses are of numerics {numerics}: run `{COMMAND}`"
    assert max(map(int, read_history())) == NUMERICS
    past, found = read_history()[str(NUMERICS)], digests(golden)
    assert found.keys() <= past.keys(), f"run `{COMMAND}`"
    changed = [case for case in found if found[case] != past[case]]
    assert not changed, f"losses.json was changed for {', '.join(changed)}; {REMEDY}"


class TestUpdate:
    METHODS = frozenset({"old", "new"})

    @pytest.fixture
    def files(self, tmp_path):
        files = tmp_path / "losses.json", tmp_path / "history.json"
        update({"old": {"motif": {"loss": 0.5}}}, 1, self.METHODS, *files)
        return files

    def test_a_method_is_added_under_the_same_number(self, files):
        update({"new": {"motif": {"loss": 2.0}}}, 1, self.METHODS, *files)
        assert read(files[0]) == (1, {"old": {"motif": {"loss": 0.5}}, "new": {"motif": {"loss": 2.0}}})
        assert read_history(files[1]) == {"1": digests(read(files[0])[1])}

    @pytest.mark.parametrize("losses", [{"loss": 0.6}, {"loss": 0.5, "more": 0.1}, {}])
    def test_a_change_is_refused_under_the_same_number(self, files, losses):
        before = [file.read_bytes() for file in files]
        with pytest.raises(SystemExit, match=r"old on motif were .*[\s\S]*raise NUMERICS in src/mphil/provenance"):
            update({"old": {"motif": losses}}, 1, self.METHODS, *files)
        assert [file.read_bytes() for file in files] == before

    def test_a_change_goes_with_a_higher_number(self, files):
        first = read_history(files[1])["1"]
        update({"old": {"motif": {"loss": 0.6}}}, 2, self.METHODS, *files)
        assert read(files[0]) == (2, {"old": {"motif": {"loss": 0.6}}})
        assert read_history(files[1]) == {"1": first, "2": digests({"old": {"motif": {"loss": 0.6}}})}

    def test_the_rounding_of_another_machine_changes_nothing(self, files):
        before = [file.read_bytes() for file in files]
        update({"old": {"motif": {"loss": 0.5 + 1e-12}}}, 1, self.METHODS, *files)
        assert [file.read_bytes() for file in files] == before

    def test_a_hand_in_the_file_does_not_reach_the_history(self, files):
        before = files[1].read_bytes()
        files[0].write_text(files[0].read_text().replace("0.5", "0.6"))
        update({"old": {"motif": {"loss": 0.6}}}, 1, self.METHODS, *files)
        assert files[1].read_bytes() == before
        assert digests(read(files[0])[1]) != read_history(files[1])["1"]

    def test_the_number_never_falls(self, files):
        with pytest.raises(SystemExit, match="NUMERICS is 0, the losses are of 1 already"):
            update({}, 0, self.METHODS, *files)

    def test_a_method_that_is_gone_stays_in_the_history(self, files):
        update({}, 1, {"new"}, *files)
        assert read(files[0]) == (1, {})
        assert "old on motif" in read_history(files[1])["1"]
