"""Weights in int8 and bfloat16, and back."""

import pytest
import torch

from regard.train.quantization import (
    ENCODINGS,
    GROUP_SCALES,
    SCALE,
    decode,
    encode,
    pack_low_bits,
    unpack_low_bits,
)


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


@pytest.mark.parametrize(
    ("encoding", "steps", "most"),
    [("int8-groups", 127, 0.76), ("int10-groups", 511, 2.01)],  # scales are off by up to a 256th
)
def test_each_number_of_a_group_is_about_half_a_step_of_its_group_away(encoding, steps, most):
    given = weights() | {"uneven": torch.randn(3, 70)}
    read = decode(encode(given, encoding))
    for name in ("W", "uneven"):
        groups, errors = given[name].flatten(1), (read[name] - given[name]).flatten(1)
        for start in range(0, groups.shape[1], 32):
            step = groups[:, start : start + 32].abs().amax(1) / steps
            assert (errors[:, start : start + 32].abs().amax(1) <= step * most).all()


def test_every_number_of_ten_bits_comes_back_from_a_byte_and_two_bits():
    given = torch.arange(-511, 512).reshape(33, 31).to(torch.int16)
    read = 4 * (given >> 2) + unpack_low_bits(pack_low_bits(given), given.shape)
    assert torch.equal(read, given)
    assert len(pack_low_bits(given)) == 256


def test_a_large_number_spoils_its_group_alone():
    given = torch.full((1, 64), 0.01)
    given[0, 0] = 100.0
    rows, groups = (decode(encode({"W": given}, how))["W"] for how in ("int8", "int8-groups"))
    assert (rows[0, 1:] == 0).all()
    assert (groups[0, 1:32] == 0).all()
    torch.testing.assert_close(groups[0, 32:], given[0, 32:], rtol=0.005, atol=0)


def test_rows_shorter_than_a_group_are_bfloat16():
    given = torch.tensor([[0.5, -0.25, 9984.0]] * 4)
    encoded = encode({"W": given}, "int8-groups")
    assert list(encoded) == ["W"]
    torch.testing.assert_close(decode(encoded)["W"], given, rtol=1 / 256, atol=0)


def test_ten_bits_take_five_quarters_of_a_byte_and_err_as_bfloat16_does():
    given = {"W": torch.randn(200, 256)}
    encoded = encode(given, "int10-groups")
    bytes_taken = sum(tensor.numel() * tensor.element_size() for tensor in encoded.values())
    assert bytes_taken == 200 * 256 * (1 + 1 / 4 + 2 / 32)
    ten, eight, half = (
        (decode(encode(given, how))["W"] - given["W"]).square().mean().sqrt()
        for how in ("int10-groups", "int8-groups", "bf16")
    )
    assert ten < eight / 3
    assert ten < 1.2 * half


def test_groups_take_a_scale_of_two_bytes_for_32_numbers():
    encoded = encode({"W": torch.randn(5, 70)}, "int8-groups")
    scales = encoded["W" + GROUP_SCALES]
    assert (encoded["W"].dtype, tuple(scales.shape), scales.dtype) == (torch.int8, (5, 3), torch.bfloat16)


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


@pytest.mark.parametrize("encoding", ["int8", "int8-groups"])
@pytest.mark.parametrize("columns", [1, 32])
def test_a_row_of_zeros_stays_zero_and_rows_of_other_sizes_keep_their_own_scale(encoding, columns):
    given = torch.tensor([[0.0, 0.0], [1e-6, -2e-6], [300.0, -100.0]]).repeat(1, columns)
    read = decode(encode({"W": given}, encoding))["W"]
    torch.testing.assert_close(read, given, rtol=0.02, atol=0)
    assert (read[0] == 0).all()


def test_what_was_encoded_once_is_encoded_the_same_again():
    first = encode(weights(), "int8")
    second = encode(decode(first), "int8")
    assert torch.equal(first["W"], second["W"])
    torch.testing.assert_close(first["W" + SCALE], second["W" + SCALE])
