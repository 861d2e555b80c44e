from regard.decode.unknown import read_dictionary


def test_a_dictionary_is_learnt_and_used(command, run, tmp_path):
    out = tmp_path / "words.tsv"
    learnt = command("dictionary", run, "--out", out)
    assert learnt.status == 0
    assert str(out) in learnt.err.replace("\n", "")
    words = read_dictionary(out)
    assert f"{len(words)} words: " in learnt.err
    assert set(words) | set(words.values()) <= set("abcdefghijklmnop")
    assert command("translate", run, "a b c", "--unknown", out).status == 0


def test_the_runs_own_dictionary_must_have_been_made(command, run):
    outcome = command("translate", run, "a b", "--unknown", "dictionary")
    assert outcome.status == 2
    assert outcome.err == (
        f"regard: {run / 'dictionary.tsv'}: no such file. `regard dictionary {run}` writes it.\n"
    )


def test_the_fate_of_unknown_words_is_told(command, run, tmp_path):
    assert "'zebra' (left as <unk>)" in command("translate", run, "a zebra", "--unknown", "keep").err
    words = tmp_path / "words.tsv"
    words.write_text("zebra\tz\n")
    assert (
        "'zebra' (looked up or carried through)"
        in command("translate", run, "a zebra", "--unknown", words).err
    )


def test_an_unknown_way_with_unknown_words_is_an_error(command, run):
    for name in ("translate", "evaluate"):
        words = ["a b"] if name == "translate" else []
        outcome = command(name, run, *words, "--unknown", "drop")
        assert outcome.status == 2
        assert outcome.err == (
            "regard: --unknown has 'drop', which is not a file; expected copy, dictionary, keep or FILE.\n"
        )


def test_a_model_without_attention_has_no_dictionary(command, plain_run):
    outcome = command("dictionary", plain_run)
    assert outcome.status == 2
    assert "model is 'seq2seq', which has no attention; expected one with attention" in outcome.err
