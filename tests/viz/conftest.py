import pytest

from regard.viz.sheet import Sheet


@pytest.fixture
def sheets(monkeypatch: pytest.MonkeyPatch) -> list[Sheet]:
    """The sheets that would have been written."""
    made: list[Sheet] = []
    monkeypatch.setattr(Sheet, "save", lambda sheet, owner, path: made.append(sheet) or path)
    return made
