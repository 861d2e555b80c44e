"""A worker process of `regard.translate.workers`: pickled lines in, pickled answers out.

It ends when its standard input closes, which also happens when its parent is killed.
"""

import os
import pickle
import sys
from contextlib import suppress
from typing import BinaryIO


def main() -> None:
    """Answer requests until standard input closes."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep library output out of the answers
    with suppress(EOFError, BrokenPipeError):
        answer(sys.stdin.buffer, replies)


def answer(requests: BinaryIO, replies: BinaryIO) -> None:
    """Read the options, then answer lists of lines."""
    from regard.translate.answers import LineTranslator

    options, number = pickle.load(requests)
    translate = None
    while True:
        lines = pickle.load(requests)
        try:
            if translate is None:
                _take_device(number)
                translate = LineTranslator(options)
            reply: object = translate(lines)
        except Exception as error:  # the process that asked raises it
            reply = error
        pickle.dump(reply, replies)
        replies.flush()


def _take_device(number: int) -> None:
    """Assign GPUs to workers in turn, if there are several."""
    import torch

    if torch.accelerator.is_available() and torch.accelerator.device_count() > 1:
        torch.accelerator.set_device_index(number % torch.accelerator.device_count())


if __name__ == "__main__":
    main()
