"""The log as JSON lines: time, event, route, model, duration. Never user input."""

import json
import logging
import sys
import time

FIELDS = (
    *("method", "route", "status", "milliseconds", "bytes", "model", "error", "trace"),
    *("host", "port", "models", "seconds", "signal"),
)


class JSONLines(logging.Formatter):
    """One line per record."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        made = {
            "time": f"{stamp}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        made |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        return json.dumps(made, ensure_ascii=False)


def log_to_stderr() -> None:
    """Send the server's log to standard error only."""
    log, handler = logging.getLogger("regard.serve"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
