"""Waiting for a page whose Content-Security-Policy forbids to evaluate text: it is asked from outside."""

import time

SECONDS = 20


def until(page, expression, argument=None, seconds=SECONDS):
    """Until a JavaScript expression is true."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, f"{expression} is not true at {page.url}"
        page.wait_for_timeout(50)
