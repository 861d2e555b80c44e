import pytest

TINY = {
    "pointer-hull": [
        "model.hidden=8",
        "task.train=64",
        "task.valid=8",
        "task.test=8",
        "task.tests=[5]",
        "task.longest=8",
        "task.groups=1",
        "train.batch=16",
    ],
    "pointer-sort": ["model.hidden=8", "task.train=64", "task.valid=8", "task.test=8", "train.batch=16"],
    "ntm-copy": ["model.hidden=8", "model.rows=12", "model.width=6", "task.test=2", "train.batch=4"],
    "ntm-recall": ["model.hidden=8", "model.rows=12", "model.width=6", "task.test=2", "train.batch=4"],
    "ntm-sort": ["model.hidden=8", "model.rows=12", "model.width=6", "task.test=2", "train.batch=2"],
    "memn2n-stories": ["task.train=64", "task.valid=16", "task.test=8"],
    "lstmn-sentences": ["model.hidden=8", "model.embedding=8"],
    "sat-shapes": ["model.hidden=8", "task.train=32", "task.valid=8", "task.test=8", "train.batch=8"],
    "snail-strokes": ["task.valid=8", "task.test=8", "train.batch=4"],
    "sagan-shapes": ["model.generator=8", "model.discriminator=8", "model.noise=4", "task.train=32"],
    "decomposable-toy": ["task.train=200", "task.valid=20", "task.test=20"],
    "rnnsearch-reverse": ["model.hidden=16", "model.embedding=8", "task.train=400", "task.valid=16"],
    "seq2seq-reverse": ["model.hidden=16", "model.embedding=8", "task.train=400", "task.valid=16"],
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """trained("pointer-hull"): the folder of a run of two steps, made once."""
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    made = {}

    def train(recipe):
        if recipe not in made:
            folder = tmp_path_factory.mktemp(recipe) / recipe
            settings = [*TINY[recipe], "train.steps=2", "train.threads=1"]
            config = load_recipe(recipe, settings)
            fit(*create(config), config, run=folder, progress=Quiet())
            made[recipe] = folder
        return made[recipe]

    return train
