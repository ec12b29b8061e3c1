"""Signature < preset < TOML < --set, and every mistake named."""

import pytest
from tests.toys import small_benchmark

import mphil
from mphil.config import EncoderConfig
from mphil.errors import UnknownName, UsageError
from mphil.training.settings import merge, parse_assignment, read_toml, resolve, split_assignment

NAME = {"benchmark": {"name": "good-motif-basis", "graphs": 200}}


def resolved(*layers):
    config, _ = resolve(merge([NAME, *layers]))
    return config


class TestPrecedence:
    def test_one_key_through_all_levels(self, tmp_path):
        path = tmp_path / "settings.toml"
        path.write_text("[method]\nmomentum = 0.5\n")
        layers = [{"method": {"preset": "release"}}, read_toml(path), parse_assignment("method.momentum=0.25")]
        values = [resolved(*layers[:n]).method.args["momentum"] for n in range(4)]
        assert values == [0.99, 0.9, 0.5, 0.25]

    def test_the_encoder_of_the_benchmark_is_above_the_signature(self, tmp_path):
        path = tmp_path / "settings.toml"
        path.write_text("[encoder]\nwidth = 64\n")
        layers = [read_toml(path), parse_assignment("encoder.width=32")]
        values = [EncoderConfig().width, *(resolved(*layers[:n]).encoder.width for n in range(3))]
        assert values == [300, 128, 64, 32]
        assert resolved(*layers).encoder.layers == 4, "what was not set keeps the benchmark's recommendation"

    def test_later_layers_win_key_by_key(self):
        layers = [{"train": {"lr": 0.1, "epochs": 3}, "seed": 1}, {"train": {"lr": 0.2}}, {"seed": 2}]
        assert merge(layers) == {"train": {"lr": 0.2, "epochs": 3}, "seed": 2}
        assert layers[0] == {"train": {"lr": 0.1, "epochs": 3}, "seed": 1}

    def test_text_for_a_section_is_its_name(self):
        merged = merge([{"method": {"name": "erm", "x": 1}}, {"method": "mphil", "benchmark": "spmotif"}])
        assert merged == {"method": {"name": "mphil", "x": 1}, "benchmark": {"name": "spmotif"}}

    def test_everything_is_filled_in(self):
        config = resolved({"seed": 3})
        assert (config.benchmark.name, config.benchmark.args) == ("good-motif-basis", {"seed": 0, "graphs": 200})
        assert (config.method.name, config.method.args["prototypes"]) == ("mphil", 3)
        assert config.encoder.node.kind == "constant"
        assert (config.seed, config.train.epochs) == (3, 100)

    def test_data_that_are_already_built(self):
        data = mphil.benchmark("good-motif-basis", graphs=100)
        config, same = resolve({"method": {"name": "erm"}}, data)
        assert same is data
        assert config.benchmark.args == {"seed": 0, "graphs": 100}
        assert resolve({}, small_benchmark())[0].benchmark.name == "unnamed"


class TestMistakes:
    @pytest.mark.parametrize(
        ("layer", "message"),
        [
            ({"trian": {"lr": 1}}, "unknown setting 'trian'; did you mean train"),
            ({"train": {"epoch": 1}}, "unknown train setting 'epoch'; did you mean epochs"),
            ({"encoder": {"widht": 1}}, "unknown encoder setting 'widht'; did you mean width"),
            ({"method": {"name": "mphill"}}, "unknown method 'mphill'; did you mean mphil"),
            ({"method": {"temprature": 1}}, "unknown option of method mphil 'temprature'; did you mean temperature"),
            ({"method": {"preset": "relaese"}}, "unknown preset of method mphil 'relaese'; did you mean release"),
            ({"benchmark": {"name": "good-motif-bases"}}, "unknown benchmark .*; did you mean good-motif-basis"),
            ({"benchmark": {"graph": 3}}, "unknown option of benchmark good-motif-basis 'graph'; did you mean graphs"),
        ],
        ids=str,
    )
    def test_unknown_names_get_the_nearest(self, layer, message):
        with pytest.raises(UnknownName, match=message):
            resolved(layer)

    @pytest.mark.parametrize(
        ("layer", "message"),
        [
            ({"train": {"epochs": "many"}}, r"train\.epochs='many': .*integer"),
            ({"train": {"epochs": 0}}, r"train\.epochs=0: .*greater than or equal to 1"),
            ({"train": {"lr": float("nan")}}, r"train\.lr=nan: .*finite"),
            ({"train": {"lr": float("inf")}}, r"train\.lr=inf: .*finite"),
            ({"method": {"temperature": float("nan")}}, "temperature=nan: .*finite"),
            ({"encoder": {"dropout": 1.0}}, r"encoder\.dropout=1\.0: .*less than 1"),
            ({"encoder": {"kind": "gcnn"}}, r"encoder\.kind='gcnn': unknown encoder 'gcnn'; did you mean gcn"),
            ({"encoder": {"kind": "a b:C"}}, r"encoder\.kind='a b:C': .*package\.module:Class"),
            ({"encoder": {"kind": "torch_geometric.nn:Nothing"}}, "there is no such name"),
            ({"encoder": {"kind": "vgin", "layers": 1}}, "encoder: a virtual node"),
            ({"encoder": {"node": "x"}}, r"encoder\.node comes from the data"),
            ({"seed": -1}, "^seed=-1: .*greater than or equal to 0"),
            ({"seed": "x"}, "^seed='x': .*integer"),
            ({"method": {"prototypes": "a"}}, "method mphil: prototypes='a': .*integer"),
            ({"method": {"name": ["erm"]}}, r"method\.name=\['erm'\]: a name is expected"),
            ({"method": {"preset": 3}}, r"method\.preset=3: a name"),
            ({"benchmark": {"name": 3}}, r"benchmark\.name=3: a name"),
            ({"train": 3}, r"train=3: a section of settings is expected, such as \[train\]"),
            ({"method": 3}, "method=3: a section"),
        ],
        ids=str,
    )
    def test_wrong_values_name_their_key(self, layer, message):
        with pytest.raises(UsageError, match=message):
            resolved(layer)

    def test_no_benchmark(self):
        with pytest.raises(UsageError, match="no benchmark given"):
            resolve({})

    def test_options_for_a_benchmark_that_is_already_built(self):
        with pytest.raises(UsageError, match=r"benchmark\.graphs: the benchmark is already built"):
            resolve({"benchmark": {"graphs": 3}}, small_benchmark())


class TestAssignments:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("train.epochs=20", {"train": {"epochs": 20}}),
            ("method.temperature = 0.2", {"method": {"temperature": 0.2}}),
            ("train.renormalise=true", {"train": {"renormalise": True}}),
            ("encoder.readout=sum", {"encoder": {"readout": "sum"}}),
            ("encoder.readout='sum'", {"encoder": {"readout": "sum"}}),
            ("method.update=a=b", {"method": {"update": "a=b"}}),
            ("train.device=", {"train": {"device": ""}}),
            ("seed=7", {"seed": 7}),
        ],
    )
    def test_values_are_read_as_toml_or_taken_as_text(self, text, value):
        assert parse_assignment(text) == value

    @pytest.mark.parametrize("text", ["train.epochs", "", "=3", "epochs=3", "train.=3", "method=erm"])
    def test_what_is_no_assignment(self, text):
        with pytest.raises(UsageError, match=r"--set '.*': write section\.key=value, such as train\.epochs=20"):
            parse_assignment(text)

    def test_keys_without_a_section(self):
        assert split_assignment("graphs=600") == ("graphs", 600)
        with pytest.raises(UsageError, match="--set 'graphs': write key=value"):
            split_assignment("graphs")


class TestFiles:
    def test_malformed(self, tmp_path):
        path = tmp_path / "settings.toml"
        path.write_text("[train\nepochs = 3")
        with pytest.raises(UsageError, match=r"settings\.toml: not a TOML file: .*line 1"):
            read_toml(path)

    def test_not_text(self, tmp_path):
        path = tmp_path / "settings.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(UsageError, match="not a TOML file"):
            read_toml(path)

    def test_missing_and_folder(self, tmp_path):
        with pytest.raises(UsageError, match=r"nothing\.toml: No such file"):
            read_toml(tmp_path / "nothing.toml")
        with pytest.raises(UsageError, match="directory"):
            read_toml(tmp_path)
