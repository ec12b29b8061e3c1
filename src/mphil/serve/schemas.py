"""What goes over the wire, as the OpenAPI document describes it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from mphil.limits import MAX_EXPLAINED_ROWS, MAX_REQUEST_CHARACTERS, MAX_REQUEST_ROWS
from mphil.serve.jobs import State
from mphil.serve.requests import Refusal

Cell = str | float | None


def whole_characters(text: object) -> object:
    """Text in which half of a surrogate pair, which JSON can hold and UTF-8 cannot, is the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(whole_characters)]


class Body(BaseModel):
    """Base of requests: a key that we do not know is refused."""

    model_config = ConfigDict(extra="forbid")


def not_too_much(smiles: list[str]) -> list[str]:
    """Refuse molecules that together are more work than a request may be.

    Raises:
        Refusal: they have too many characters.
    """
    characters = sum(map(len, smiles))
    if characters > MAX_REQUEST_CHARACTERS:
        error = f"the molecules have {characters:,} characters together, at most {MAX_REQUEST_CHARACTERS:,} are taken"
        raise Refusal(413, error, "send fewer at a time, or send them as a file")
    return smiles


Molecules = Annotated[list[Text], AfterValidator(not_too_much)]


class PredictRequest(Body):
    """Molecules to predict."""

    smiles: Annotated[Molecules, Field(max_length=MAX_REQUEST_ROWS, examples=[["CCO", "c1ccccc1C(=O)O"]])]


class ExplainRequest(Body):
    """Molecules to explain."""

    smiles: Annotated[Molecules, Field(max_length=MAX_EXPLAINED_ROWS, examples=[["CC(=O)Oc1ccccc1C(=O)O"]])]
    target: Annotated[Text | None, Field(description="Whose prototypes are named; the first when absent.")] = None


class Problem(BaseModel):
    """Why a request was not carried out."""

    error: Annotated[str, Field(description="What is wrong.")]
    remedy: Annotated[str, Field(description="What to do about it.")]


class Answered(BaseModel):
    """A row with its answer; a row that cannot be read has a status and a message in its cells."""

    smiles: Annotated[str, Field(description="The molecule as it was given.")]
    cells: Annotated[dict[str, Cell], Field(description="The columns that `mphil predict` adds to a table.")]


class Answer(Answered):
    """The answer to a molecule of a request."""

    canonical: Annotated[str | None, Field(description="The spelling that the model saw.")]


class PredictResponse(BaseModel):
    """The answers, in the order of the molecules."""

    columns: Annotated[list[str], Field(description="Names of the cells, in the order in which they are shown.")]
    rows: list[Answer]


class ExplainedPart(BaseModel):
    """A substructure and what it does for the prediction."""

    kind: Annotated[str, Field(description="`ring`, `group` or `fragment`.")]
    smiles: Annotated[str, Field(description="The part, `*` where it hangs on the rest.")]
    name: Annotated[str, Field(description="What a chemist would call it; empty without a name.")]
    atoms: Annotated[list[int], Field(description="Numbers of its atoms, from 0, as the molecule names them.")]
    importance: Annotated[float, Field(description="Mean weight of its atoms.")]
    drop: Annotated[float, Field(description="Fall of the probability, or of the number, when it is hidden.")]
    change: Annotated[float, Field(description="Change of the probability or number that is shown when it is hidden.")]
    drawing: Annotated[str | None, Field(description="SVG of the molecule with the part outlined; of the first parts.")]


class Prototype(BaseModel):
    """A prototype near the molecule."""

    class_name: str
    number: Annotated[int, Field(description="Its number among those of the class, from 1.")]
    similarity: Annotated[float, Field(description="Cosine of the angle to the molecule.")]
    members: Annotated[int, Field(description="Training molecules that it is nearest to.")]
    molecule: Annotated[str | None, Field(description="The training molecule nearest to it.")]
    drawing: Annotated[str | None, Field(description="SVG of that molecule.")]


class Reasons(BaseModel):
    """Why a molecule is predicted as it is."""

    drawing: Annotated[str, Field(description="SVG in which important atoms glow.")]
    weights: Annotated[list[float], Field(description="Importance of each atom between 0 and 1.")]
    parts: Annotated[list[ExplainedPart], Field(description="Substructures, the most important first.")]
    disagreement: Annotated[str, Field(description="Where colours and the effect of removal disagree, if they do.")]
    prototypes: Annotated[list[Prototype], Field(description="The nearest ones; empty without an embedding.")]


class Explained(Answer):
    """An answer with its reasons, which a molecule without an answer has not."""

    reasons: Reasons | None
    nearest_drawing: Annotated[str | None, Field(description="SVG of the nearest training molecule.")]


class ExplainResponse(BaseModel):
    """The explanations, in the order of the molecules."""

    columns: list[str]
    scored_by: Annotated[str, Field(description="How atoms are scored.")]
    prototypes: Annotated[bool, Field(description="False: the mean direction of each class stands in for them.")]
    rows: list[Explained]


class FileSummary(BaseModel):
    """What became of the rows of a file."""

    column: Annotated[str, Field(description="Of the molecules.")]
    rows: int
    answered: int
    statuses: dict[str, int]
    domains: dict[str, int]
    escaped: Annotated[int, Field(description="Cells of the CSV that stand behind an apostrophe.")]
    seconds: float
    notes: list[str]


class JobState(BaseModel):
    """A file on its way."""

    id: str
    name: str
    state: State
    ahead: Annotated[int, Field(description="Files that come before it.")]
    rows_done: int
    rows_expected: Annotated[int | None, Field(description="About how many there are.")]
    pages: int
    summary: FileSummary | None = None
    error: str | None = None
    remedy: str | None = None


class PageRow(Answered):
    """A row of a file."""

    row: Annotated[int, Field(description="Its number, from 1 below the header.")]
    line: Annotated[int, Field(description="The line of the file it begins on, from 1.")]
    name: str
    canonical: str | None
    drawing: Annotated[str | None, Field(description="SVG in which important atoms glow; none of a large molecule.")]
    nearest_drawing: Annotated[str | None, Field(description="SVG of the nearest training molecule.")]


class RowsResponse(BaseModel):
    """A page of rows."""

    page: int
    pages: int
    columns: list[str]
    rows: list[PageRow]


class ModelFacts(BaseModel):
    """What is served."""

    method: str
    members: Annotated[list[str], Field(description="The models that answer together; none when one answers alone.")]
    task: str
    targets: list[str]
    classes: list[str]
    columns: list[str]
    metric: str | None
    scores: Annotated[dict[str, Any], Field(description="Of the model and its baselines, on both test parts.")]
    data: Annotated[dict[str, Any], Field(description="The table it was trained on.")]
    training_molecules: int
    calibration: str
    coverage: Annotated[float | None, Field(description="Share of labels that sets or intervals aim at.")]
    domains: Annotated[bool, Field(description="Whether molecules are told in, borderline or out of domain.")]
    domain_score: str
    scored_by: Annotated[str, Field(description="How atoms are scored.")]
    prototypes: Annotated[bool, Field(description="False: the mean direction of each class stands in for them.")]
    selection: str
    epoch: int
    seed: int
    digest: str
    versions: dict[str, str]
    notes: list[str]
    limits: dict[str, int]


class Health(BaseModel):
    """Whether the server is there."""

    status: str
