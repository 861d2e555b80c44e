"""Compare: runs and comparisons of one's own, looked at while they train."""

import pytest
from waiting import until

pytestmark = pytest.mark.browser
FEW = [
    "task.train=64",
    "task.valid=8",
    "task.test=8",
    "train.log_every=1",
    "train.evaluate_every=2",
    "train.threads=1",
]
TINY = ["model.hidden=8", "model.embedding=8", *FEW]
COPY = [
    "model.hidden=8",
    "model.rows=16",
    "task.bits=4",
    "task.longest=3",
    "task.tested=[3]",
    "train.capture=false",
    *FEW,
]


@pytest.fixture(scope="module")
def runs(folders):
    """A function that trains a run of this name up to a step, or goes on."""
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create, reopen

    def train(name, steps, recipe="rnnsearch-reverse", settings=TINY):
        folder = folders / "runs" / name
        if folder.exists():
            config, model, task = reopen(folder, [f"train.steps={steps}"])
        else:
            config = load_recipe(recipe, [*settings, f"train.steps={steps}"])
            model, task = create(config)
        fit(model, task, config, run=folder, progress=Quiet(), resume=folder.exists())

    return train


def test_a_run_grows_on_the_page_while_it_trains(live, runs, folders, visit, save):
    runs("first", 4)
    runs("second", 4)
    owner = folders / "runs" / "first" / "owner.json"
    owner.write_text("{}")  # as while it trains
    page = visit(f"{live}#/compare")
    row = page.get_by_role("row", name="first")
    row.get_by_text("4 / 4").wait_for()
    until(page, "document.querySelectorAll('.chart .curve').length === 2")
    page.get_by_text("What its weights of step 4 make of a sentence").first.wait_for()
    owner.unlink()
    runs("first", 8)
    owner.write_text("{}")
    row.get_by_text("8 / 8").wait_for()  # nobody reloaded the page
    page.get_by_text("What its weights of step 8 make of a sentence").wait_for()
    page.get_by_role("checkbox", name="Show second").uncheck()
    until(page, "document.querySelectorAll('.chart .curve').length === 1")
    save(page, page.get_by_role("region", name="Loss"))
    owner.unlink()


def test_a_run_of_ones_own_translates_beside_the_shipped_models(live, runs, visit):
    runs("own", 2)
    page = visit(f"{live}#/translate?text=a+b+c")
    page.get_by_role("radio", name="own").click()
    until(page, "location.hash.includes('model=own')")
    page.locator(".rg-curves text", has_text="b").first.wait_for()


def test_a_machine_of_ones_own_is_fed_with_vectors_of_its_width(live, runs, visit):
    runs("own-copy", 2, "ntm-copy", COPY)
    page = visit(f"{live}#/remember")
    page.get_by_role("radio", name="own-copy").click()
    page.get_by_text("Trained on up to 3;").wait_for()
    until(page, "document.querySelectorAll('.tape [role=checkbox]').length === 4 * 3")
    page.get_by_role("checkbox", name="Vector 3, bit 4", exact=True).click()
    page.get_by_text("of 12 bits of the answer are wrong").wait_for()


def test_a_captioner_of_ones_own_describes_beside_the_shipped_ones(live, runs, visit):
    runs("own-captions", 2, "sat-shapes", TINY)
    page = visit(f"{live}#/see")
    page.get_by_role("button", name="own-captions").click()
    region = page.get_by_role("region", name="own-captions")
    region.locator(".picture image").wait_for()
    page.get_by_role("button", name="own-captions").click()
    until(page, "!location.hash.includes('model=')")


def test_a_comparison_fills_while_it_runs(live, folders, visit):
    from regard.compare.comparison import plan
    from regard.compare.trial import measure

    folder = folders / "comparisons" / "scores"
    compared = plan("rnnsearch-reverse", scores=("additive", "general"), overrides=[*TINY, "train.steps=2"])
    (folder / "configs").mkdir(parents=True)
    for variant in compared.variants:
        variant.config.write(folder / "configs" / f"{variant.slug}-seed1.toml")
    measure(compared.variants[0].config, folder / "runs" / "additive-seed1")
    owner = folder / "runs" / "additive-seed1" / "owner.json"
    owner.write_text("{}")  # as while it trains
    page = visit(f"{live}#/compare?tab=comparisons")
    page.get_by_text("1 of 2 trainings are measured.").wait_for()
    page.get_by_role("row", name="general").get_by_text("waiting").wait_for()
    measure(compared.variants[1].config, folder / "runs" / "general-seed1")
    page.get_by_text("2 of 2 trainings are measured.").wait_for()
    assert page.locator(".chart .measured").count() == 2
    owner.unlink()
