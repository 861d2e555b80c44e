"""Models of transformers on this disk: by a subfolder's name, from safetensors, without their code."""

import json

import pytest

from regard.errors import ConfigError
from regard.serve.folders import Folders

WORDS = ["the", "cat", "sat", "on", "mat", "."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT and a GPT-2 with random weights, and folders that must not be opened."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedTokenizerFast

    made = tmp_path_factory.mktemp("models")
    vocabulary = {word: number for number, word in enumerate(["[UNK]", "[PAD]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    sizes = {"vocab_size": len(vocabulary)}
    torch.manual_seed(1)
    bert = BertConfig(
        **sizes, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16
    )
    gpt = GPT2Config(**sizes, n_embd=16, n_layer=3, n_head=2, n_positions=600)
    for name, model in (("tiny-bert", BertModel(bert)), ("tiny-gpt", GPT2Model(gpt))):
        model.save_pretrained(made / name)
        fast.save_pretrained(made / name)
    (made / "pickled").mkdir()
    (made / "pickled" / "config.json").write_text((made / "tiny-bert" / "config.json").read_text())
    torch.save({}, made / "pickled" / "pytorch_model.bin")
    coded = json.loads((made / "tiny-bert" / "config.json").read_text())
    coded |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Own"}}
    (made / "coded").mkdir()
    (made / "coded" / "config.json").write_text(json.dumps(coded))
    (made / "coded" / "own.py").write_text(f"open({str(made / 'ran')!r}, 'w')\nclass Own: pass\n")
    (made / "coded" / "model.safetensors").write_bytes((made / "tiny-bert/model.safetensors").read_bytes())
    (made / "link").symlink_to(made / "tiny-bert")
    return made


def test_models_with_safetensors_are_listed(made, folder):
    with made(folder=folder) as client:
        found = client.get("/v1/folders").json()
    assert [(each["id"], each["type"], each["writes"]) for each in found] == [
        ("coded", "own", False),
        ("tiny-bert", "bert", False),
        ("tiny-gpt", "gpt2", False),
    ]


@pytest.mark.parametrize(("name", "layers", "heads"), [("tiny-bert", 2, 4), ("tiny-gpt", 3, 2)])
def test_a_text_is_traced(made, folder, name, layers, heads):
    with made(folder=folder) as client:
        found = client.post("/v1/trace", json={"model": name, "text": "the cat sat on the mat ."}).json()
    [group] = found["groups"]
    assert [len(layer["heads"]) for layer in group["layers"]] == [heads] * layers
    assert all(layer["shape"] == [7, 7] for layer in group["layers"])
    assert found["texts"] == [["the", "cat", "sat", "on", "the", "mat", "."]]


def test_code_that_lies_beside_the_weights_is_not_run(made, folder):
    with made(folder=folder) as client:
        answer = client.post("/v1/trace", json={"model": "coded", "text": "the cat"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unreadable")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("name", ["nobody", "pickled", "link", "..", "../models", "/etc", "tiny-bert/"])
def test_only_names_of_the_list_are_opened(made, folder, name):
    with made(folder=folder) as client:
        answer = client.post("/v1/trace", json={"model": name, "text": "the cat"})
    assert answer.status_code == 404
    assert "tiny-bert" in answer.json()["error"]["message"]


def test_a_long_text_is_refused(made, folder):
    with made(folder=folder) as client:
        answer = client.post("/v1/trace", json={"model": "tiny-gpt", "text": ". " * 600})
    assert answer.json()["error"]["message"] == "text: has 600 pieces of words; expected 512 at most."


def test_without_the_option_there_is_no_folder(made):
    with made() as client:
        assert client.get("/v1/folders").json() == []
        assert client.post("/v1/trace", json={"model": "tiny-bert", "text": "a"}).status_code == 404


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="which is not a folder"):
        Folders(tmp_path / "nowhere")
