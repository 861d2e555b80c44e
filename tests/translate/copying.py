"""A translator without a model: it writes what it reads, and its folder needs no weights."""

from regard.translate.answers import Answer


class Copying:
    """Stands for `LineTranslator`."""

    def __init__(self, options=None):
        self.windows = []

    def __call__(self, lines):
        self.windows.append(list(lines))
        return [
            Answer(line.upper(), "is too long. It is left empty." if line == "long" else "", line == "long")
            for line in lines
        ]
