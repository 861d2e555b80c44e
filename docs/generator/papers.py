"""What every page about a paper ends with: our records beside the paper's, the recipes, the files."""

from dataclasses import dataclass

from catalogue import RESULTS, address
from readme import headlines
from records import markdown, number, papers, recorded, rows_of

from regard import catalog
from regard.train.config import load_recipe, recipe_names, recipe_sentence


@dataclass(frozen=True)
class Paper:
    """A page of docs/papers and the models of the catalogue that it is about."""

    page: str
    models: tuple[str, ...]


PAPERS = (
    Paper("seq2seq", ("seq2seq",)),
    Paper("rnnsearch", ("rnnsearch",)),
    Paper("ntm", ("ntm", "lstm-sequence")),
    Paper("show-attend-tell", ("show-attend-tell",)),
    Paper("memory-networks", ("memn2n", "memn2n-lm")),
    Paper("pointer-networks", ("pointer", "point-attention", "point-seq2seq")),
    Paper("luong", ("luong",)),
    Paper("lstmn", ("lstmn", "lstmn-classifier", "lstmn-pairs", "lstmn-fusion", "lstm-lm")),
    Paper("decomposable", ("decomposable", "bag-of-words")),
    Paper("pooling", ("pooled-pictures", "pooled-sentences")),
    Paper("transformer", ("transformer",)),
    Paper("snail", ("snail", "snail-policy")),
    Paper("sagan", ("sagan",)),
)


def index_table(prefix: str) -> str:
    """Every system, by year, with the page of its paper."""
    body = []
    for paper in PAPERS:
        for key in paper.models:
            row = catalog.find(key, "model")
            name = f"[{row.title}]({prefix}{paper.page}.md)"
            body.append((row.year, [str(row.year), name, row.authors, row.sentence]))
    body.sort(key=lambda line: line[0])
    return markdown(["year", "system", "paper", "in a sentence"], [cells for _, cells in body], sides="l")


def in_numbers(page: str) -> str:
    """The closing section of a paper's page."""
    [paper] = [each for each in PAPERS if each.page == page]
    parts = ["## In numbers"]
    for key in paper.models:
        row = catalog.find(key, "model")
        found = rows_of(RESULTS, f"model:{key}")
        parts += [f"**[](../{address(row)})** (`{row.file}`)", row.sentence]
        said = headlines(found)
        if said:
            parts.append(recorded("\n".join(f"- {line}" for line in said)))
        beside = [r for r in found if r.paper_value is not None]
        if beside:
            body = [[f"`{r.recipe}`", r.metric, number(r), papers(r), r.paper_note or ""] for r in beside]
            header = ["recipe", "metric", "ours", "the paper's", "how far they compare"]
            parts.append(recorded(markdown(header, body, "llrrl")))
    body = [[f"`regard train {name}`", recipe_sentence(name)] for name in recipe_names() if _of(name, paper)]
    if body:
        parts += ["Recipes:", markdown(["command", "what it trains"], body, sides="l")]
    return "\n\n".join(parts) + "\n"


def _of(recipe: str, paper: Paper) -> bool:
    return load_recipe(recipe).model in paper.models
