"""What every page about a paper ends with: our records beside the paper's, the recipes, the files."""

from catalogue import RESULTS, address
from readme import headlines
from records import markdown, number, papers, recorded, rows_of

from regard import catalog
from regard.train.config import load_recipe, recipe_names, recipe_sentence

# a page of docs/papers, and the models of the catalogue that it is about
PAPERS = {
    "seq2seq": ("seq2seq",),
    "rnnsearch": ("rnnsearch",),
    "ntm": ("ntm", "lstm-sequence"),
    "show-attend-tell": ("show-attend-tell",),
    "memory-networks": ("memn2n", "memn2n-lm"),
    "pointer-networks": ("pointer", "point-attention", "point-seq2seq"),
    "luong": ("luong",),
    "lstmn": ("lstmn", "lstmn-classifier", "lstmn-pairs", "lstmn-fusion", "lstm-lm"),
    "decomposable": ("decomposable", "bag-of-words"),
    "pooling": ("pooled-pictures", "pooled-sentences"),
    "transformer": ("transformer",),
    "snail": ("snail", "snail-policy"),
    "sagan": ("sagan",),
}


def index_table(prefix: str) -> str:
    """Every system, by year, with the page of its paper."""
    body = []
    for page, models in PAPERS.items():
        for key in models:
            row = catalog.find(key, "model")
            name = f"[{row.title}]({prefix}{page}.md)"
            body.append((row.year, [str(row.year), name, row.authors, row.sentence]))
    body.sort(key=lambda line: line[0])
    return markdown(["year", "system", "paper", "in a sentence"], [cells for _, cells in body], sides="l")


def in_numbers(page: str) -> str:
    """The closing section of a paper's page."""
    models = PAPERS[page]
    parts = ["## In numbers"]
    for key in models:
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
    recipes = [name for name in recipe_names() if load_recipe(name).model in models]
    if recipes:
        body = [[f"`regard train {name}`", recipe_sentence(name)] for name in recipes]
        parts += ["Recipes:", markdown(["command", "what it trains"], body, sides="l")]
    return "\n\n".join(parts) + "\n"
