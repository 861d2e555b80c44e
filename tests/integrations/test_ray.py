"""A real Ray of two workers on this machine: what one that is killed had begun is done again, once."""

import contextlib
import json
import os
import re
import signal
import urllib.error
import urllib.request
from itertools import islice
from pathlib import Path

import pytest

from regard.data.grammar import generate
from regard.shipped.find import find_run
from regard.translate.answers import LineTranslator, Options

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
MODEL = "demo-rnnsearch"


@pytest.fixture(scope="module")
def ray():
    """The package of that name, with room for two workers and for what Ray Data does beside them."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def texts():
    return [pair.source_text for pair in islice(generate("fr", "train", words=(3, 8)), 400)]


@pytest.fixture(scope="module")
def expected(texts):
    return [answer.text for answer in LineTranslator(Options(find_run(MODEL)))(texts)]


def test_a_worker_killed_in_the_middle_costs_no_line_and_doubles_none(ray, texts, expected, tmp_path):
    from regard.integrations.ray import Translate

    class KilledOnce(Translate):  # local, so that Ray sends it by value
        def __call__(self, batch):
            (tmp_path / f"worker-{os.getpid()}").touch()
            if 200 in batch["number"] and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    rows = [{"number": number, "text": text} for number, text in enumerate(texts)]
    found = ray.data.from_items(rows, override_num_blocks=40).map_batches(
        KilledOnce,
        fn_constructor_kwargs={"run": MODEL},
        compute=ray.data.ActorPoolStrategy(size=2),
        batch_size=10,
    )
    rows = found.take_all()
    assert (tmp_path / "killed").exists()
    assert len(list(tmp_path.glob("worker-*"))) == 3  # two, and the one that took a place
    assert sorted(row["number"] for row in rows) == list(range(len(texts)))
    assert [row["translation"] for row in sorted(rows, key=lambda row: row["number"])] == expected


def test_a_served_translator_answers_and_outlives_the_kill_of_a_replica(ray, texts, expected):
    from ray import serve

    from regard.integrations.ray import deployment

    handle = serve.run(
        deployment(MODEL, num_replicas=2, ray_actor_options={"num_cpus": 0.5}), name="translator"
    )
    try:
        answers = [handle.translate.remote(text) for text in texts[:100]]
        assert [answer.result() for answer in answers] == expected[:100]
        assert post({"text": texts[0]}) == (200, {"translation": expected[0]})
        assert post({"txt": texts[0]}) == (422, {"error": 'expected JSON: {"text": "…"}.'})
        first, _ = replicas()
        os.kill(first, signal.SIGKILL)
        assert [patiently(handle, text) for text in texts[:100]] == expected[:100]
    finally:
        serve.shutdown()


def test_the_lines_of_the_page_run(ray, texts, expected, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "many-machines.md").read_text(encoding="utf-8")
    translating, serving = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    small = translating.replace("size=8", "size=1").replace("    num_gpus=1,\n", "").replace("en-fr", MODEL)
    corpus, out = tmp_path / "corpus", tmp_path / "translated-by-ray"
    corpus.mkdir()
    (corpus / "a.txt").write_text("".join(f"{text}\n" for text in texts[:50]))
    small = small.replace('"corpus"', repr(str(corpus))).replace(f'"{out.name}"', repr(str(out)))
    exec(small, {})
    rows = ray.data.read_parquet(str(out)).take_all()
    pairs = zip(texts[:50], expected[:50], strict=True)
    assert sorted((row["text"], row["translation"]) for row in rows) == sorted(pairs)
    exec(serving.replace("en-fr", MODEL).replace("num_replicas=2", "num_replicas=1"), scope := {})
    try:
        assert scope["handle"].translate.remote(texts[0]).result() == expected[0]
    finally:
        scope["serve"].shutdown()


def post(body):
    request = urllib.request.Request("http://localhost:8000/", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def replicas():
    """The processes that serve, by the names that Ray gives them."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and b"ServeReplica:translator:" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def patiently(handle, text):
    """As a client does: what a killed replica had begun is asked again."""
    from ray.exceptions import RayError

    for _ in range(20):
        try:
            return handle.translate.remote(text).result()
        except RayError:
            continue
    raise AssertionError("nobody answers")
