"""Request schemas; every list and text has a limit here, and so in the OpenAPI schema."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from regard.serve import limits

Text = Annotated[str, Field(max_length=limits.CHARACTERS)]
Filled = Annotated[str, Field(min_length=1, max_length=limits.CHARACTERS)]
Name = Annotated[str, Field(min_length=1, max_length=200, description="A model of /v1/models.")]
Texts = Filled | Annotated[list[Filled], Field(min_length=1, max_length=limits.TEXTS)]
Beam = Annotated[
    int | None, Field(ge=1, le=limits.BEAM, description="Hypotheses kept; absent: the recipe's.")
]
Bit = Annotated[int, Field(ge=0, le=1)]
Coordinate = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Row = Annotated[list[Bit], Field(min_length=1, max_length=limits.ROW_WIDTH)]
Item = Annotated[list[Row], Field(min_length=1, max_length=limits.ITEM)]


class Request(BaseModel):
    """Base class; unknown fields are refused, because most are misspelt."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TranslateRequest(Request):
    """One or several texts. `beam` returns all hypotheses; `target` is aligned instead of translating."""

    model: Name
    text: Texts
    beam: Beam = None
    target: Texts | None = None
    tree: bool = Field(default=False, description="Also the tree of the beam search.")


class AlignRequest(Request):
    """A text and its translation, or equally many of each."""

    model: Name
    text: Texts
    target: Texts


class AttentionRequest(Request):
    """One head of a Transformer; without `layer` and `head` all heads of a part, one byte per weight."""

    model: Name
    text: Filled
    target: Filled | None = Field(default=None, description="Absent: what the model writes.")
    part: Literal["encoder", "decoder", "cross"] = "cross"
    layer: Annotated[int, Field(ge=0, le=100)] | None = None
    head: Annotated[int, Field(ge=0, le=100)] | None = None


class PointRequest(Request):
    """Points in a plane; for a model that sorts, rows of one number: `[[3.5], [1]]`."""

    model: Name
    points: Annotated[
        list[Annotated[list[Coordinate], Field(min_length=1, max_length=2)]],
        Field(min_length=1, max_length=limits.POINTS),
    ]
    beam: Beam = None


class RunRequest(Request):
    """Vectors of bits to copy; or items of several vectors, of which item number `ask` is the query."""

    model: Name
    bits: (
        Annotated[list[Row], Field(min_length=1, max_length=limits.ROWS)]
        | Annotated[list[Item], Field(min_length=1, max_length=limits.ROWS)]
    )
    ask: Annotated[int, Field(ge=0, lt=limits.ROWS)] = 0


class AskRequest(Request):
    """A story, sentence by sentence, and a question."""

    model: Name
    story: Annotated[list[Filled], Field(min_length=1, max_length=limits.SENTENCES)]
    question: Filled


class CaptionRequest(Request):
    """A PNG or JPEG file, in base64."""

    model: Name
    picture: Annotated[str, Field(min_length=1, max_length=limits.PICTURE_BODY)]
    beam: Beam = None


class Drawing(Request):
    """A drawing as a matrix; ink has high values."""

    shape: Annotated[list[int], Field(min_length=2, max_length=2)]
    type: Literal["uint8", "float32"]
    scale: FiniteFloat = 1.0
    data: Annotated[str, Field(min_length=1, max_length=10_000)]
    compressed: Literal["deflate"] | None = None


class ClassifyRequest(Request):
    """Labelled drawings, and one to classify."""

    model: Name
    drawings: Annotated[list[Drawing], Field(min_length=1, max_length=limits.DRAWINGS)]
    labels: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=limits.LABEL)]],
        Field(min_length=1, max_length=limits.DRAWINGS),
    ]
    query: Drawing


class SampleRequest(Request):
    """Generate `count` pictures, cycling through these classes; `maps` of them come with attention."""

    model: Name
    count: Annotated[int, Field(ge=1, le=limits.SAMPLES)] = 8
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    classes: Annotated[list[Filled], Field(min_length=1, max_length=limits.SAMPLES)] | None = None
    maps: Annotated[int, Field(ge=0, le=limits.SHOWN)] = limits.SHOWN


class EntailRequest(Request):
    """Whether the hypothesis follows from the premise."""

    model: Name
    premise: Filled
    hypothesis: Filled


class ScoreRequest(Request):
    """How likely a sentence is, word by word."""

    model: Name
    text: Filled


class TraceRequest(Request):
    """A text for a model of /v1/folders; models that generate read `target` as their output."""

    model: Annotated[str, Field(min_length=1, max_length=200, description="A model of /v1/folders.")]
    text: Filled
    target: Filled | None = None


class MechanismRequest(Request):
    """The example of a row of /v1/mechanisms."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    parameters: Annotated[dict[Annotated[str, Field(max_length=40)], FiniteFloat], Field(max_length=20)] = {}
