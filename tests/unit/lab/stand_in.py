"""A worker without training, started in place of the real one: it does what its cell's row says."""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path

home = Path(sys.argv[-1])
cell = json.loads((home / "cell.json").read_text())
row = cell["row"]


def leave_with_parent():
    while os.read(0, 1024):
        pass
    if row != "deaf":
        (home / "stopped").touch()
        os._exit(130)


def count(name):
    """How often this was called for the cell."""
    with (home / name).open("a") as file:
        file.write("x")
    return (home / name).stat().st_size


def numerics():
    """Read, since importing the package takes longer than all that is done here."""
    source = Path(__file__).parents[3] / "src" / "mphil" / "provenance.py"
    return int(re.search(r"^NUMERICS = (\d+)", source.read_text(), re.MULTILINE)[1])


threading.Thread(target=leave_with_parent, daemon=True).start()
if row in ("hangs", "deaf"):
    (home / "started").touch()
    time.sleep(60)
if row == "waits":
    (home / "process").write_text(str(os.getpid()))
    count("attempts")
    while not (home.parent / "go").exists():
        time.sleep(0.01)
if row == "dies":
    sys.stderr.write("out of memory\n")
    os._exit(9)
if row == "killed":
    os.kill(os.getpid(), 9)
if row == "busy":
    os._exit(75)
# A run in five steps, each saved: one that is cut goes on.
while count("steps") < 5:
    time.sleep(0.05)
kind = "failed" if row == "fails" else "run"
outcome = {"kind": kind, "cell": home.name, "setting": "s", "benchmark": "b", "method": "m", "command": "c"}
scores = {"ood_val": {"epoch": 1, "scores": {"ood_val": 0.5}}}
outcome |= {"selections": scores, "data_digest": "d", "versions": {}, "error": "on purpose", "suite": cell["suite"]}
outcome |= {"numerics": numerics()}
outcome |= {"row": row, "seed": cell["seed"], "budget": {}, "config": {}, "metric": "accuracy", "split_digest": "d"}
outcome |= {"threads": os.environ["OMP_NUM_THREADS"], "last": {"scores": {"ood_test": 0.5}}, "seconds": 1.0}
draft = home / "draft"
draft.write_text(json.dumps(outcome))
draft.replace(home / ("failure.json" if kind == "failed" else "record.json"))
os._exit(kind == "failed")
