"""The Penn Treebank text of the language-model papers: ptb.train.txt, ptb.valid.txt, ptb.test.txt.

Words are separated by spaces, rare ones are already written `<unk>` and numbers `N`; each line is a sentence.
With one end mark per line, `<eos>`, the vocabulary has 10,000 words. The text may not be redistributed, so it
is read from the user's folder, `task.data` or REGARD_DATA or its subfolder `ptb/`; files are plain or .gz.
"""

from typing import Literal

from regard.data.folders import find_file
from regard.data.parallel import read_lines

EOS = "<eos>"
HOME = "https://www.fit.vut.cz/person/imikolov/rnnlm/ (simple-examples.tgz)."
FOLDERS = ("ptb", "data", "simple-examples/data", "ptb/simple-examples/data")


def read_ptb(split: Literal["train", "valid", "test"], *, data: str = "") -> list[str]:
    """The words of a split in order, with `<eos>` after each line."""
    names = (f"ptb.{split}.txt", f"ptb.{split}.txt.gz")
    path = find_file("ptb", names, data=data, folders=FOLDERS, home=HOME)
    return sentences_to_words([line.split() for line in read_lines(path)])


def sentences_to_words(sentences: list[list[str]]) -> list[str]:
    """One stream of words, with `<eos>` after each sentence; empty sentences are left out."""
    return [word for sentence in sentences if sentence for word in (*sentence, EOS)]
