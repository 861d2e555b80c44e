"""The table "What can be recorded" says what trying gives."""

import transformers
from documentation import generator


def test_the_page_has_the_table_that_trying_makes():
    transformers.logging.set_verbosity_error()
    recordable = generator("recordable")
    assert recordable.table() in recordable.PAGE.read_text(encoding="utf-8")
