"""Rows in memory as the splits of a task: a Dataset or DatasetDict of `datasets`, a list, a data frame.

`datasets` is not imported: a table is anything that yields its rows as mappings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from regard.errors import ConfigError, DataError

HELD_OUT = 50  # one row in this many is held out if there is no validation split
ENOUGH = 2000  # at most this many
NAMES = {"validation": "valid", "dev": "valid"}

Row = Mapping[str, Any]
Split = Literal["train", "valid", "test"]


class Rows:
    """The splits of a dataset; `owner` is the task named in errors, `kept` filters the rows.

    Splits are `train`, `validation` (or `valid`, `dev`) and `test`. Without validation rows, some training
    rows are held out; without test rows, the validation rows are used for testing.
    """

    def __init__(self, owner: str, dataset: Any, kept: Callable[[Row], bool] | None = None) -> None:
        self.owner = owner
        splits = dataset if isinstance(dataset, Mapping) and "train" in dataset else {"train": dataset}
        self._features = getattr(splits["train"], "features", None) or {}
        tables = {NAMES.get(name, name): self._table(table) for name, table in splits.items()}
        self._splits = {name: [*filter(kept, rows)] if kept else rows for name, rows in tables.items()}
        if not len(self._splits["train"]):
            raise DataError(f"{owner}: the dataset has no rows; expected rows of 'train'.")

    def __getitem__(self, split: Split) -> Iterator[Row]:
        own = self._splits.get("valid" if split == "test" and "test" not in self._splits else split)
        if own is not None and (split != "train" or "valid" in self._splits):
            return iter(own)
        rows = self._splits["train"]
        return (row for number, row in enumerate(rows, 1) if is_in(split, number, len(rows)))

    def cells(self, row: Row, *names: str) -> list[Any]:
        """A row's values in the named columns."""
        missing = next((name for name in names if name not in row), None)
        if missing is not None:
            has = ", ".join(map(str, row)) or "nothing"
            raise DataError(f"{self.owner}: a row of the dataset has {has}; expected {missing!r} among them.")
        return [row[name] for name in names]

    def names(self, column: str) -> Sequence[str] | None:
        """The label names of a column, if the dataset has them (a ClassLabel)."""
        return getattr(self._features.get(column), "names", None)

    def _table(self, table: Any) -> Sequence[Row]:
        if isinstance(table, Mapping):  # columns
            return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
        if hasattr(table, "iterrows"):  # a pandas data frame, which iterates over its column names
            return list(table.to_dict("records"))
        if not hasattr(table, "__len__"):
            raise DataError(
                f"{self.owner}: the dataset is {type(table).__name__}, of unknown length; expected all its "
                "rows. Load it with streaming=False."
            )
        return table


def is_in(split: Split, number: int, count: int) -> bool:
    """Whether row `number` of `count`, from 1, is in a split if validation and test rows are held out."""
    every = max(HELD_OUT, -(-count // ENOUGH))
    few = count < every  # then the first is held out, but also trained on
    held_out = number == 1 if few else number % every == 0
    return (few or not held_out) if split == "train" else held_out


def require_dataset(owner: str, setting: str, value: str) -> None:
    """Raise unless the settings say that a run trains on rows, so that it is not evaluated on a corpus."""
    if value != "dataset":
        raise ConfigError(
            f"{owner}: `task.{setting}` has {value!r}; expected 'dataset'. Set task.{setting}=dataset."
        )


def no_rows(owner: str, setting: str) -> DataError:
    """The error for a run that needs rows of its own but was given none."""
    return DataError(
        f"{owner}: `task.{setting}` has 'dataset', and no rows are given; expected them in Python, by "
        "from_dataset(rows, settings)."
    )
