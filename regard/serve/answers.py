"""Answer schemas for OpenAPI; work.py builds the answers as plain dictionaries."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from regard.serve.mechanisms import Parameter


class Failure(BaseModel):
    """What went wrong."""

    code: str
    message: str = Field(description="One sentence.")


class Error(BaseModel):
    """The body of every unsuccessful answer."""

    error: Failure


class Matrix(BaseModel):
    """A matrix in row-major order; uint8 values are `round(weight / scale * 255)`."""

    shape: list[int]
    type: Literal["uint8", "float32"]
    scale: float
    data: str = Field(description="Base64, little-endian.")
    compressed: Literal["deflate"] | None = None


class TapeAnswer(BaseModel):
    """The input that a copying or recalling machine takes."""

    width: int = Field(description="Bits of a vector.")
    item: int = Field(description="Vectors of an item; 1: the machine copies vectors.")
    trained: int = Field(description="The most vectors or items that it was trained on.")


class ModelAnswer(BaseModel):
    """A served model."""

    name: str
    kind: str
    system: str
    summary: str
    figure: str
    examples: list[str]
    step: int | None = Field(description="Of a run of the user's: that of its latest weights.")
    limits: dict[str, Any]
    tape: TapeAnswer | None = None


class Hypothesis(BaseModel):
    """One hypothesis of a beam."""

    text: str
    score: float
    words: list[str]
    alignment: Matrix | None


class TreeNode(BaseModel):
    """A continuation kept by the search."""

    id: int
    parent: int | None
    step: int
    word: str
    log_probability: float


class Tree(BaseModel):
    """All continuations, and the nodes of each hypothesis, best first."""

    nodes: list[TreeNode]
    hypotheses: list[list[int]]


class Layers(BaseModel):
    """The number of layers and heads of a Transformer."""

    encoder: int
    decoder: int
    heads: int


class TranslationAnswer(BaseModel):
    """A translation; words are subwords of the model, including leading spaces."""

    text: str
    source_words: list[str]
    target_words: list[str]
    score: float
    alignment: Matrix | None = Field(description="Rows: target_words. None for a model without attention.")
    beam: list[Hypothesis]
    tree: Tree | None = None
    layers: Layers | None = None


class TranslateAnswer(BaseModel):
    """One result per text."""

    results: list[TranslationAnswer]


class AttentionAnswer(BaseModel):
    """One head (`matrix`), or all heads of a part (`heads[layer][head]`)."""

    part: str
    layers: Layers
    rows: list[str]
    columns: list[str]
    matrix: Matrix | None = None
    heads: list[list[Matrix]] | None = None


class PointAnswer(BaseModel):
    """Indices of points, from 0; column 0 of the weights is the end."""

    question: str
    points: list[list[float]] = Field(description="As the model saw them, in the unit square.")
    order: list[int]
    exact: list[int]
    weights: Matrix | None
    length: float | None = None
    exact_length: float | None = None


class Head(BaseModel):
    """A head of the machine: its weights at each step (steps × rows), and the stages of addressing."""

    kind: Literal["read", "write"]
    weights: Matrix
    stages: dict[Literal["content", "gated", "shifted", "sharpened"], Matrix]


class Memory(BaseModel):
    """The memory after the last step, and what each step added and read."""

    rows: int
    width: int
    cells: Matrix
    added: Matrix
    read: Matrix


class RunAnswer(BaseModel):
    """The machine's output; `wrong` counts bits."""

    task: str
    inputs: list[list[int]]
    outputs: list[list[int]]
    probabilities: Matrix
    right: list[list[int]]
    wrong: int
    memory: Memory
    heads: list[Head]


class AskAnswer(BaseModel):
    """An answer; `hops` has a row of weights over the sentences per hop. `unknown` words were ignored."""

    answer: str
    probability: float
    sentences: list[str]
    hops: Matrix
    unknown: list[str]


class CaptionAnswer(BaseModel):
    """A caption, an attention map per word, and the square that the model saw, as base64 PNG."""

    text: str
    words: list[str]
    maps: list[Matrix]
    grid: list[int]
    picture: str


class ClassifyAnswer(BaseModel):
    """The predicted label; weights of each attention block over the drawings and the query."""

    label: str
    probabilities: dict[str, float]
    weights: Matrix


class SampleAnswer(BaseModel):
    """Base64 PNG files; for the first of them, the attention of each position of the grid."""

    pictures: list[str]
    labels: list[str]
    classes: list[str] = Field(description="All that the model knows.")
    maps: list[Matrix]
    grid: list[int]


class EntailAnswer(BaseModel):
    """The label; weights of the premise's words over the hypothesis, and `back` for the reverse."""

    label: str
    probabilities: dict[str, float]
    premise: list[str]
    hypothesis: list[str]
    pooled: bool
    weights: Matrix | None
    back: Matrix | None


class NextWord(BaseModel):
    """A word that may come next."""

    word: str
    probability: float


class ScoreAnswer(BaseModel):
    """Log-probabilities of the words and of the end; likely next words; what each word attended to.

    Rows and columns of the weights are the start symbol, then the words.
    """

    words: list[str]
    log_probabilities: list[float]
    perplexity: float
    next: list[NextWord]
    weights: Matrix | None


class MeasuredValue(BaseModel):
    """A measured number, with the paper's."""

    recipe: str
    metric: str
    value: float
    paper: float | None
    machine: str
    date: str


class MechanismRow(BaseModel):
    """A row of the catalogue; rows without parameters have no example.

    `symbols` says what a symbol of the equation is in the example: `rows`, `columns`, `scores`, `weights`,
    `row N`, or a parameter.
    """

    key: str
    kind: str
    title: str
    authors: str
    year: int
    link: str
    equation: str
    sentence: str
    symbols: dict[str, str]
    parameters: list[Parameter]
    measured: list[MeasuredValue]
    file: str


class CodeAnswer(BaseModel):
    """The source file of a mechanism."""

    file: str
    text: str


class MechanismAnswer(BaseModel):
    """A small example; scores that no query may see are -inf."""

    weights: Matrix
    scores: Matrix
    rows: list[str]
    columns: list[str]


class TrainingState(BaseModel):
    """The progress of a training."""

    model: str
    task: str
    step: int
    steps: int
    saved: int | None
    loss: float | None
    valid_loss: float | None
    seconds: float | None
    changed: str


class RunSummary(TrainingState):
    """A run folder of the user."""

    id: str
    status: Literal["training", "finished", "stopped", "interrupted"]


class Curve(BaseModel):
    """Pairs of a step and a loss."""

    train: list[list[float]]
    valid: list[list[float]]


class RunAlignment(BaseModel):
    """The alignment of a sentence under the latest weights."""

    step: int
    model: str
    text: str
    source_words: list[str]
    target_words: list[str]
    alignment: Matrix | None


class RunDescription(RunSummary):
    """A run with its loss curve and its latest alignment, if it has one."""

    curve: Curve
    alignment: RunAlignment | None


class ComparisonSummary(BaseModel):
    """A comparison, with its numbers of running and finished trainings."""

    id: str
    trainings: int
    finished: int
    training: int
    changed: str


class ComparedRun(TrainingState):
    """A training of a comparison; `value` is the headline of its evaluation."""

    id: str
    variant: str
    seed: int | None
    status: Literal["waiting", "training", "finished", "stopped", "interrupted", "impossible"]
    metric: str | None
    value: float | None
    reason: str | None
    curve: Curve


class ComparisonAnswer(ComparisonSummary):
    """A comparison with its trainings."""

    runs: list[ComparedRun]


class FolderModel(BaseModel):
    """A transformers model on this disk; models that generate take a `target`."""

    id: str
    type: str
    writes: bool
    bytes: int


class TraceAnswer(BaseModel):
    """The data for the page of regard.view."""

    groups: list[dict[str, Any]]
    texts: list[list[str]]
