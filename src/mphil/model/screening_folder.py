"""A folder of tables, file by file, here or on a Ray cluster; what is finished is not done again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from mphil.errors import DataError, MphilError, UnknownName, UsageError
from mphil.files import remove_drafts, sha256_of, write_json
from mphil.model.predictor import Predictor, load
from mphil.model.ray_cluster import cluster_address, connected, import_ray
from mphil.model.screening import screen_file
from mphil.training.process import lock_run

Engine = Literal["local", "ray"]
SUFFIXES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
DONE = ".done"
"""Sub folder of the output with a marker for each finished file."""

RETRIES = 3
"""How often a file is begun again after its machine, or Ray's process on it, was lost."""


@dataclass
class FolderSummary:
    """What became of the files of a folder.

    Attributes:
        out: the folder with the answers.
        done: what became of each file that was predicted now, as `Summary.as_dict` tells it.
        before: files that were finished before.
        failed: file to what went wrong.
    """

    out: str
    done: list[dict[str, Any]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "out": self.out,
            "rows": sum(one["rows"] for one in self.done),
            "answered": sum(one["answered"] for one in self.done),
            "files": self.done,
            "before": self.before,
            "failed": self.failed,
        }


def screen_folder(
    bundle: Path,
    folder: Path,
    out: Path,
    *,
    engine: str = "local",
    address: str | None = None,
    column: str | None = None,
    workers: int | None = None,
) -> Iterator[FolderSummary]:
    """Predict every table of a folder into a folder of the same file names; yields the state after every file.

    A finished file has a marker with the checksums of the table, of the bundle and of what was written. As long as
    they are right it is not done again, so the same call goes on after any interruption.

    Args:
        bundle: folder of the bundle; on a cluster, the same on all machines.
        folder: with parquet, CSV or TSV files; likewise.
        out: where to; likewise.
        engine: `local`, one file after the other, or `ray`, one file a processor of a cluster.
        address: of the cluster; that of `RAY_ADDRESS`, or else one on this machine, when absent.
        column: of the molecules; that of training, or found, when absent.
        workers: processes that read molecules, for the local engine.

    Raises:
        UsageError: there is no table in the folder, or the output is the same folder.
    """
    if engine not in ("local", "ray"):
        raise UnknownName("engine", engine, ("local", "ray"))
    if address and engine != "ray":
        raise UsageError(f"--address {address} goes with --engine ray")
    bundle, folder, out = bundle.resolve(), folder.resolve(), out.resolve()
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(SUFFIXES) and path.is_file())
    if not names:
        raise UsageError(f"{folder}: no {', '.join(SUFFIXES)} file in it")
    if out == folder:
        raise UsageError(f"{out} is the folder that is read; choose another --out")
    digest = load(bundle).bundle.digest
    with lock_run(out):
        (out / DONE).mkdir(exist_ok=True)
        remove_drafts(out / DONE)
        summary = FolderSummary(str(out))
        todo = []
        for name in names:
            if is_done(folder / name, out, digest):
                summary.before.append(name)
            else:
                todo.append(name)
        yield summary
        jobs = [(str(bundle), str(folder / name), str(out), column, digest) for name in todo]
        outcomes = _on_cluster(jobs, address) if engine == "ray" else (screen_one(*job, workers) for job in jobs)
        for found in outcomes:
            if "error" in found:
                summary.failed[found["name"]] = found["error"]
            else:
                summary.done.append(found["summary"])
            yield summary


def screen_one(
    bundle: str, path: str, out: str, column: str | None, digest: str, workers: int | None = 1
) -> dict[str, Any]:
    """Predict one file and mark it as finished; what goes wrong with this file alone is told, not raised.

    Returns:
        `{"name": file, "summary": values}` or `{"name": file, "error": sentence}`.
    """
    source, target = Path(path), Path(out) / Path(path).name
    try:
        predictor = _loaded(bundle, digest)
        before = sha256_of(source)
        found = screen_file(predictor, source, target, column=column, workers=workers)
        marker = {"bundle": digest, "source": before, "answers": sha256_of(target), "rows": found.rows}
        write_json(_marker(Path(out), source.name), marker)
    except (MphilError, OSError) as error:
        return {"name": source.name, "error": str(error)}
    return {"name": source.name, "summary": found.as_dict()}


def is_done(source: Path, out: Path, digest: str) -> bool:
    """Whether a file was finished by this very bundle, and neither it nor its answers have changed since."""
    marker, target = _marker(out, source.name), out / source.name
    try:
        told = json.loads(marker.read_bytes())
        return bool(
            told["bundle"] == digest and told["answers"] == sha256_of(target) and told["source"] == sha256_of(source)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _on_cluster(jobs: list[tuple[Any, ...]], address: str | None) -> Iterator[dict[str, Any]]:
    ray = import_ray()
    with connected(ray, cluster_address(address)):
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(screen_one)
        working = {task.remote(*job): job for job in jobs}
        try:
            while working:
                for reference in ray.wait(list(working))[0]:
                    job = working.pop(reference)
                    try:
                        yield ray.get(reference)
                    except ray.exceptions.RayError as error:
                        lines = str(error).strip().splitlines() or [type(error).__name__]
                        yield {"name": Path(job[1]).name, "error": f"{type(error).__name__}: {lines[-1]}"}
        finally:
            for reference in working:
                ray.cancel(reference)


@lru_cache(maxsize=1)
def _loaded(bundle: str, digest: str) -> Predictor:
    """The model, read once in each process; the digest is there so that another bundle is read anew."""
    predictor = load(bundle)
    if predictor.bundle.digest != digest:
        raise DataError(f"{bundle} was replaced while its predictions were being made; give the command again")
    return predictor


def _marker(out: Path, name: str) -> Path:
    return out / DONE / f"{name}.json"
