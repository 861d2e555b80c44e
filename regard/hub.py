"""The Hub's conventions for models and whole systems: `save_pretrained`, `from_pretrained`, `push_to_hub`.

The arguments are those of huggingface_hub's ModelHubMixin, whose push_to_hub does the upload. Saving and
loading a folder need no other package; the Hub itself needs the extra `hub`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from regard.catalog import Row
from regard.errors import DataError
from regard.extras import installed, needs

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"


class Hubbed:
    """Mixin for objects that can be saved as a Hub folder, uploaded, and loaded from either."""

    def _write(self, folder: Path, name: str, card: Mapping[str, Any]) -> None:
        """Write all files; `name` is the title of the card, `card` holds the author's entries for it."""
        raise NotImplementedError

    @classmethod
    def _read(cls, folder: Path, **options: Any) -> Self:
        raise NotImplementedError

    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        config: object = None,
        repo_id: str | None = None,
        push_to_hub: bool = False,
        model_card_kwargs: Mapping[str, Any] | None = None,
        **push_to_hub_kwargs: Any,
    ) -> str | None:
        """Write a folder that `from_pretrained` reads; with `push_to_hub` also upload it.

        `model_card_kwargs` may have `license`, `data` and `limits`, worded as the card should show them.
        `config` is accepted for compatibility with the Hub's mixin and ignored: the model's own is saved.
        """
        folder, card = Path(save_directory), dict(model_card_kwargs or {})
        folder.mkdir(parents=True, exist_ok=True)
        self._write(folder, str(card.pop("repo_id", None) or repo_id or folder.resolve().name), card)
        if push_to_hub:
            return self.push_to_hub(
                repo_id or folder.resolve().name, model_card_kwargs=card, **push_to_hub_kwargs
            )
        return None

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        force_download: bool = False,
        token: str | bool | None = None,
        cache_dir: str | Path | None = None,
        local_files_only: bool = False,
        revision: str | None = None,
        **options: Any,
    ) -> Self:
        """Load a folder, or a repository of the Hub (`owner/name`), that `save_pretrained` wrote."""
        folder = Path(pretrained_model_name_or_path)
        if not folder.is_dir():
            folder = fetch(
                str(pretrained_model_name_or_path),
                force_download=force_download,
                token=token,
                cache_dir=cache_dir,
                local_files_only=local_files_only,
                revision=revision,
            )
        return cls._read(folder, **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Create the repository if necessary, upload everything in one commit, and return its address.

        The options are those of huggingface_hub: `private`, `token`, `branch`, `commit_message`, …
        """
        needs("hub", "huggingface_hub")
        from huggingface_hub import ModelHubMixin

        card = dict(options.pop("model_card_kwargs", None) or {}) | {"repo_id": repo_id}
        mixin: Any = ModelHubMixin  # needs only `save_pretrained` of its object
        return str(mixin.push_to_hub(self, repo_id, model_card_kwargs=card, **options))


def fetch(name: str, **options: Any) -> Path:
    """Download a repository of the Hub, or find it in the Hub's cache; returns its folder."""
    if not installed("huggingface_hub"):
        raise DataError(f'{name}: no such run folder. To load it from the Hub: pip install "regard[hub]".')
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, **options))
    except Exception as error:  # Hub, network and disk raise many classes; report them alike
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(
            f"{name}: no such run folder, and it could not be loaded from the Hub "
            f"({type(error).__name__}: {reason})."
        ) from error


def head(licence: str | None, tags: list[str], figures: str = "") -> str:
    """The front matter of a model card, which the Hub reads."""
    lines = ["---", "library_name: regard", *([f"license: {licence}"] if licence else [])]
    return "\n".join([*lines, f"tags: [{', '.join(tags)}]", *([figures] if figures else []), "---"])


def citation(row: Row) -> str:
    """A BibTeX entry for the paper of a catalogue row."""
    others = row.authors.endswith("et al.")
    authors = row.authors.removesuffix("et al.").strip().replace(", ", " and ")
    key = f"{row.authors.split()[0].strip(',').lower()}{row.year}"
    return f"""```bibtex
@misc{{{key},
  author = {{{authors}{" and others" if others else ""}}},
  year = {{{row.year}}},
  note = {{{row.title}}},
  url = {{{row.link}}}
}}
```"""
