"""A DataFrame of molecules, answered as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mphil.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from mphil.model.predictor.core import Predictor


def is_frame(given: object) -> bool:
    """Whether this is a DataFrame; pandas need not be there to say no."""
    return type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns")


def predict_frame(
    predictor: Predictor, table: pd.DataFrame, smiles: str | None, id: str | None, workers: int | None
) -> pd.DataFrame:
    """A row of answers for every row, see `Predictions.columns`.

    Args:
        predictor: who answers.
        table: with a column of molecules.
        smiles: its name; None takes the name it had in training.
        id: a column whose values are the index of the answers; None keeps the index of the table.
        workers: as for `Predictor.predict`.

    Raises:
        UsageError: a column is not there, or is there twice.
    """
    import pandas as pd

    reading = predictor.bundle.config.molecules
    column = smiles or (reading.column if reading is not None else "smiles")
    for option, name in (("smiles", column), *([] if id is None else [("id", id)])):
        found = list(table.columns).count(name)
        if found != 1:
            have = ", ".join(map(str, table.columns))
            said = f"no column {name!r}" if not found else f"{found} columns {name!r}"
            raise UsageError(f'the table has {said} (columns: {have}); name one with {option}="..."')
    answers = predictor.predict(table[column].tolist(), workers=workers)
    index = table.index if id is None else pd.Index(table[id], name=id)
    return pd.DataFrame(answers.columns(), index=index)
