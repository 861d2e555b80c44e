"""Search in Chinese by pairs of characters, so that every word is found without a dictionary."""

import re

from sphinx.search import SearchLanguage

RUN = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+")

SPLITTER = r"""
function splitQuery(query) {
    const words = [];
    const runs = /[\u3400-\u9fff]+|(?:(?![\u3400-\u9fff])[\p{L}\p{N}_])+/gu;
    for (const run of query.match(runs) || []) {
        if (!/[\u3400-\u9fff]/.test(run) || run.length === 1) words.push(run);
        else for (let i = 0; i + 1 < run.length; i++) words.push(run.slice(i, i + 2));
    }
    return words;
}
"""


class SearchChineseByPairs(SearchLanguage):
    """Chinese, with whatever other words stand between."""

    lang = "zh"
    language_name = "Chinese"
    js_splitter_code = SPLITTER

    def split(self, input: str) -> list[str]:
        words: list[str] = []
        for run in RUN.findall(input):
            if len(run) == 1 or run[0] < "\u3400":
                words.append(run)
            else:
                words += [run[i : i + 2] for i in range(len(run) - 1)]
        return words

    def stem(self, word: str) -> str:
        return word.lower()

    def word_filter(self, word: str) -> bool:
        return True
