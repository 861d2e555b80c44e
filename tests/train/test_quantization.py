"""Weights in int8 and bfloat16, and back."""

import pytest
import torch

from regard.train.quantization import ENCODINGS, SCALE, decode, encode


def weights():
    return {
        "W": torch.randn(5, 64),
        "convolution": torch.randn(4, 3, 3, 3),
        "bias": torch.randn(64),
        "steps": torch.tensor(7),
        "numbers": torch.arange(6).reshape(2, 3),
    }


def test_each_number_of_int8_is_at_most_half_a_step_of_its_row_away():
    given = weights()
    read = decode(encode(given, "int8"))
    for name in ("W", "convolution"):
        step = given[name].abs().flatten(1).amax(1) / 127
        error = (read[name] - given[name]).abs().flatten(1).amax(1)
        assert (error <= step * 0.5001).all()


def test_each_number_of_bfloat16_is_within_a_256th():
    given = weights()
    read = decode(encode(given, "bf16"))
    torch.testing.assert_close(read["W"], given["W"], rtol=1 / 256, atol=0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_names_shapes_dtypes_vectors_and_whole_numbers_come_back_as_they_were(encoding):
    given = weights()
    read = decode(encode(given, encoding))
    assert {name: (x.shape, x.dtype) for name, x in read.items()} == {
        name: (x.shape, x.dtype) for name, x in given.items()
    }
    for name in ("bias", "steps", "numbers"):
        assert torch.equal(read[name], given[name])


def test_int8_takes_a_quarter_of_the_bytes_and_a_scale_for_each_row():
    encoded = encode({"W": torch.randn(5, 64)}, "int8")
    assert (encoded["W"].dtype, tuple(encoded["W" + SCALE].shape)) == (torch.int8, (5, 1))


def test_a_row_of_zeros_stays_zero_and_rows_of_other_sizes_keep_their_own_scale():
    given = torch.tensor([[0.0, 0.0], [1e-6, -2e-6], [300.0, -100.0]])
    read = decode(encode({"W": given}, "int8"))["W"]
    torch.testing.assert_close(read, given, rtol=0.02, atol=0)
    assert (read[0] == 0).all()


def test_what_was_encoded_once_is_encoded_the_same_again():
    first = encode(weights(), "int8")
    second = encode(decode(first), "int8")
    assert torch.equal(first["W"], second["W"])
    torch.testing.assert_close(first["W" + SCALE], second["W" + SCALE])
