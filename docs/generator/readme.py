"""The generated parts of README.md and README.zh.md: the systems, the cost of recording, what runs how fast.

A pair of texts is in English and in Chinese, in the order of LANGUAGES.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from catalogues import LOCALE, catalogue
from costs import any_model_batches
from records import benchmark, markdown, newest, number, place, words

from regard import catalog
from regard.evaluate.results import Result, read_results

LANGUAGES = {"README.md": 0, "README.zh.md": 1}
Texts = tuple[str, str]


def renewed(readme: str, folder: Path, language: int = 0) -> str:
    """The README with its generated parts made anew."""
    parts = {
        "any-model": any_model_cost(folder, language),
        "systems": systems_table(folder, language),
        "speed": speed_table(folder, language),
    }
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = readme.partition(begin)
        _, _, after = rest.partition(end)
        readme = f"{before}{begin}\n{part}\n{end}{after}"
    return readme


# The systems ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A model, the page of its paper, the record to show, how to write its value, and what it measures."""

    model: str
    page: str
    recipe: str
    metric: str
    form: str
    measures: Texts


PENN: Texts = ("Penn Treebank, perplexity", "Penn Treebank，困惑度")
BLEU_MOSES = "BLEU, lower-cased, Moses tokens"
FRECHET = "Fréchet distance in the features of our classifier"
SYSTEMS = (
    Figure("lstm-lm", "lstmn", "lstm-ptb", "perplexity", "{:.1f}", PENN),
    Figure(
        "seq2seq", "seq2seq", "seq2seq-en-fr", "BLEU", "{:.1f}", ("embedded corpus, BLEU", "内置语料，BLEU")
    ),
    Figure("rnnsearch", "rnnsearch", "rnnsearch-en-fr", "BLEU", "{:.1f}", ("the same", "同上")),
    Figure(
        *("ntm", "ntm", "ntm-ngrams", "bits per sequence above the optimum, median of 3 seeds", "{:.2f}"),
        ("n-grams, bits above the optimum", "n-gram，超出最优值的比特数"),
    ),
    Figure(
        *("show-attend-tell", "show-attend-tell", "sat-flickr8k", "BLEU-4", "{:.1f}"),
        ("Flickr8k, soft attention, BLEU-4", "Flickr8k，软注意力，BLEU-4"),
    ),
    Figure(
        *("memn2n", "memory-networks", "memn2n-babi", "mean error", "{:.1f} %"),
        ("bAbI, 20 tasks at once, error", "bAbI，20 个任务联合训练，错误率"),
    ),
    Figure("memn2n-lm", "memory-networks", "memn2n-ptb", "perplexity", "{:.1f}", PENN),
    Figure(
        *("pointer", "pointer-networks", "pointer-hull", "hull accuracy in percent, n = 50", "{:.1f} %"),
        ("convex hulls of 50 points, exactly right", "50 个点的凸包，完全正确"),
    ),
    Figure(
        *("luong", "luong", "luong-local-p-general"),
        *("alignment error rate on hansards, of the word read", "{:.2f}"),
        ("alignment error, local-p; other corpora", "对齐错误率，local-p；语料不同"),
    ),
    Figure("lstmn", "lstmn", "lstmn-ptb", "perplexity", "{:.1f}", PENN),
    Figure(
        *("decomposable", "decomposable", "decomposable-sick", "accuracy", "{:.1%}"),
        ("SICK, accuracy", "SICK，准确率"),
    ),
    Figure(
        *("pooled-pictures", "pooling", "pooling-attention-fashion-mnist", "accuracy", "{:.1%}"),
        ("Fashion-MNIST, accuracy", "Fashion-MNIST，准确率"),
    ),
    Figure(
        *("transformer", "transformer", "transformer-multi30k-en-de", BLEU_MOSES, "{:.1f}"),
        ("Multi30k en–de, BLEU; paper: Wu et al. 2021", "Multi30k 英德，BLEU；论文一栏为 Wu 等 2021"),
    ),
    Figure(
        *("snail", "snail", "snail-omniglot", "accuracy", "{:.1%}"),
        ("Omniglot, 5-way 1-shot, accuracy", "Omniglot，5 类 1 样本，准确率"),
    ),
    Figure(
        *("snail-policy", "snail", "snail-bandit", "total reward", "{:.2f}"),
        ("bandits, 5 arms, 10 pulls, reward", "5 臂老虎机，拉 10 次，奖励"),
    ),
    Figure(
        *("sagan", "sagan", "sagan-cifar10", FRECHET, "{:.2f}"),
        ("CIFAR-10, Fréchet distance, our features", "CIFAR-10，Fréchet 距离，自有特征"),
    ),
)


def systems_table(folder: Path, language: int) -> str:
    """Year, name with its page, one figure beside the paper's: the mean over its seeds."""
    found = {(result.recipe, result.metric): result for result in newest(read_results(folder))}
    names = _chinese_names() if language else {}
    body = []
    for figure in SYSTEMS:
        row, result = catalog.find(figure.model, "model"), found[figure.recipe, figure.metric]
        name = f"[{names.get(row.title, row.title)}](docs/papers/{figure.page}.md)"
        papers = "–" if result.paper_value is None else _written(figure.form, result.paper_value)
        values = result.details.get("values") or {"": result.value}
        ours = _written(figure.form, mean(values.values()))
        seeds = str(len(result.seeds))
        body.append([str(row.year), name, figure.measures[language], ours, seeds, papers])
    header = (
        ["year", "system", "measured", "ours", "seeds", "paper's"],
        ["年份", "系统", "指标", "本库", "种子数", "论文"],
    )
    return markdown(header[language], sorted(body, key=lambda cells: cells[0]), sides="lllrrr")


def _written(form: str, value: float) -> str:
    return form.format(value).replace("%", " %").replace("  ", " ")


def _chinese_names() -> dict[str, str]:
    """The systems' names as the first page of the documentation has them."""
    messages = catalogue(LOCALE / "zh_CN" / "LC_MESSAGES" / "index.po")
    linked = re.compile(r"\[(.+)\]\(papers/[\w-]+\.md\)")
    pairs = ((linked.fullmatch(str(one.id)), linked.fullmatch(str(one.string))) for one in messages)
    return {english[1]: chinese[1] for english, chinese in pairs if english and chinese}


def headlines(results: list[Result]) -> list[str]:
    """What a paper's page says first: the summaries of the main results, best known first."""
    return [
        str(result.details.get("summary", f"{result.metric} {number(result)}"))
        for result in sorted(
            results, key=lambda r: (r.recipe == "mechanisms", r.details.get("order", 0), r.metric)
        )
        if result.details.get("headline")
    ]


def demo_table(folder: Path, _: str) -> str:
    """What the demo printed when its figures were recorded."""
    found = {
        r.recipe: r for r in newest(read_results(folder)) if r.metric == "BLEU" and "by_length" in r.details
    }
    without, search = found["seq2seq-en-fr"], found["rnnsearch-coverage-en-fr"]
    pairs = zip(without.details["by_length"], search.details["by_length"], strict=True)
    body = [[words(base), f"{base['bleu']:.1f}", f"{other['bleu']:.1f}"] for base, other in pairs]
    body.append(["all sentences", f"{without.value:.1f}", f"{search.value:.1f}"])
    return markdown(["English words", "BLEU without attention", "BLEU with attention"], body)


# What recording costs ---------------------------------------------------------------------------------------

SHAPES = ("encoder", "decoder")
COST: Texts = (
    "An encoder of BERT-base's shape, bf16, batch 4, {where}. At {long:,} tokens a recording takes "
    "{record:.2f} times as long as the model alone. The eight largest weights of each row, in all twelve "
    "layers, take "
    "{top:.1f} times as long, and {held:.1f} GiB; eager attention takes {eager:.1f} times "
    "as long, and {most:.0f} GiB. At 128 and 512 tokens the GPU waits for Python, and times vary by a "
    "third from run to run. The slowest recording, of this encoder or of a decoder, took {worst:.1f} "
    "times as long as its model.",
    "与 BERT-base 同样大小的编码器，bf16，批大小 4，{where}。{long:,} 个词元时，记录用时是模型本身的 "
    "{record:.2f} 倍；算出全部十二层里每行最大的八个权重，用时是 {top:.1f} 倍，显存 {held:.1f} GiB；"
    "eager 注意力要 {eager:.1f} 倍的时间和 {most:.0f} GiB。128 和 512 个词元时 GPU 在等 Python，"
    "每次测得的时间相差可达三分之一；在这个编码器和一个解码器的所有测量中，"
    "记录最多用了模型本身 {worst:.1f} 倍的时间。",
)


def any_model_cost(folder: Path, language: int) -> str:
    """Recording and eager attention at the longest text that was measured, and the costliest recording."""
    *_, last = any_model_batches(folder, "encoder")
    ms = last.details["ms"]
    all_times = [r.details["ms"] for shape in SHAPES for r in any_model_batches(folder, shape)]
    return COST[language].format(
        where=place(last),
        long=last.details["T"],
        record=ms["record"] / ms["sdpa"],
        eager=ms["eager"] / ms["sdpa"],
        most=last.details["MiB"]["eager"] / 1024,
        top=ms["top 8"] / ms["sdpa"],
        held=last.details["MiB"]["top 8"] / 1024,
        worst=max(each["record"] / each["sdpa"] for each in all_times),
    )


# What runs how fast -----------------------------------------------------------------------------------------

BOTH = "forward and backward"
KERNELS: tuple[tuple[str, str, Texts], ...] = (  # device, mechanism, what it is
    ("cuda", "additive", ("additive attention", "加性注意力")),
    ("cuda", "scaled-dot, sparsemax", ("sparsemax attention", "sparsemax 注意力")),
    ("cuda", "general, local-monotonic", ("local attention (local-m)", "局部注意力（local-m）")),
    ("cpu", "additive", ("additive attention", "加性注意力")),
)
RIVALS = {"compile": "torch.compile", "flex": "FlexAttention", "entmax": "entmax", "reference": "PyTorch"}
STEP: Texts = ("{}, forward and backward", "{}，前向与反向")
GENERATED: Texts = ("Transformer decoding, 256 sentences, beam 5", "Transformer 解码，256 句，束宽 5")
ONE_THREAD: Texts = ("Transformer decoding on one thread, greedy", "Transformer 单线程解码，贪心")


def speed_table(folder: Path, language: int) -> str:
    """Six rows: how many times as fast as the fastest other way to compute the same."""
    body = [
        [STEP[language].format(what[language]), *row]
        for device, mechanism, what in KERNELS
        for row in _kernel_rows(folder, device, mechanism)
    ]
    body += [[GENERATED[language], *row] for row in _generate_rows(folder)]
    body += [[ONE_THREAD[language], *row] for row in _thread_rows(folder)]
    header = (["what", "where", "compared with", "times as fast"], ["内容", "机器", "对照", "倍速"])
    return markdown(header[language], body, sides="lllr")


def _kernel_rows(folder: Path, device: str, mechanism: str) -> Iterator[list[str]]:
    """Forward and backward beside the fastest rival, as called or as graphs, whichever is nearer."""
    for result in benchmark(folder, f"attention-{device}"):
        of = result.details
        if (of.get("mechanism"), of.get("pass")) == (mechanism, BOTH):
            tables = (of.get(f"{way}times as fast", {}) for way in ("", "captured "))
            pairs = [(ratio, name) for times in tables for name, ratio in times.items() if name in RIVALS]
            ratio, hardest = min(pairs)
            yield [place(result), RIVALS[hardest], f"{ratio:.1f}"]


def _generate_rows(folder: Path) -> Iterator[list[str]]:
    for result in _records(folder, "decoding-gpu", "times generate, one sentence"):
        rows = [row for row in result.details["rows"] if "generate" in row["times"]]
        hardest = min(rows, key=lambda row: row["times"]["generate"])
        assert (hardest["sentences"], hardest["beam"]) == (256, 5), "GENERATED names the hardest row"
        yield [place(result), "transformers", f"{hardest['times']['generate']:.1f}"]


def _thread_rows(folder: Path) -> Iterator[list[str]]:
    for result in _records(folder, "decoding", "greedy: share of CTranslate2's speed"):
        yield [place(result), "CTranslate2", f"{result.value:.2f}"]


def _records(folder: Path, recipe: str, metric: str) -> list[Result]:
    return [r for r in newest(read_results(folder)) if (r.recipe, r.metric) == (recipe, metric)]
