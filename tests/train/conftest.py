import pytest
import train_support

from regard import catalog


@pytest.fixture
def _tiny_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in train_support.ROWS:
        monkeypatch.setitem(catalog.ROWS, (row.kind, row.key), row)
