import pytest
import train_support

from regard import catalog


@pytest.fixture
def _tiny_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "ROWS", (*catalog.ROWS, *train_support.ROWS))
