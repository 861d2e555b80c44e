"""A process that translates for `regard.translate.workers`: lines come in, answers go out, both pickled.

It ends when its standard input does, which it also does when the process that started it is killed.
"""

import os
import pickle
import sys
from contextlib import suppress
from typing import BinaryIO


def main() -> None:
    """Answer until nobody asks any more."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    with suppress(EOFError, BrokenPipeError):
        answer(sys.stdin.buffer, replies)


def answer(requests: BinaryIO, replies: BinaryIO) -> None:
    """The options come first, then lists of lines."""
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
    """Of several GPUs each process has one, in turn."""
    import torch

    if torch.accelerator.is_available() and torch.accelerator.device_count() > 1:
        torch.accelerator.set_device_index(number % torch.accelerator.device_count())


if __name__ == "__main__":
    main()
