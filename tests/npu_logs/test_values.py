# SPDX-License-Identifier: BSD-3-Clause
"""Argument lines become values."""

from __future__ import annotations

import pytest

from npu_dispatch_inspect.npu_logs.values import ArgumentParser
from npu_dispatch_inspect.records import Constant, TensorSpec

TENSOR = (
    "self: Tensor size: [2, 3], stride: [3, 1], offset: 4, dtype: {}, device ID: {}"
)


def parse(line):
    """The argument of one line."""
    return ArgumentParser().parse(line)


class TestTensors:
    def test_everything_that_is_printed(self):
        """Sizes, strides, offset, dtype, device and address."""
        argument = parse(TENSOR.format("float", 1) + ", data_ptr: 0x7f00")

        assert argument.value == TensorSpec(
            dtype="float32", device="npu:1", shape=(2, 3), stride=(3, 1), offset=4
        )
        assert ("self", "Tensor", 0x7F00) == (
            argument.name,
            argument.kind,
            argument.data_ptr,
        )

    def test_without_an_address(self):
        """Releases of early 2025 print none."""
        assert parse(TENSOR.format("float", 0)).data_ptr is None

    def test_of_a_fake_tensor(self):
        """It has no address, and says that it is fake."""
        argument = parse(
            TENSOR.format("float", 0) + ", data_ptr: FakeTensor does not have data_ptr"
        )

        assert ("fake",) == argument.value.flags
        assert argument.data_ptr is None

    def test_of_the_cpu(self):
        """Device -1 is the CPU."""
        assert "cpu" == parse(TENSOR.format("float", -1)).value.device

    def test_equal_but_for_the_address(self):
        """Tensors that differ in their address alone are two arguments."""
        parser = ArgumentParser()
        first, second = (
            parser.parse(TENSOR.format("float", 0) + f", data_ptr: {address:#x}")
            for address in (16, 32)
        )

        assert (16, 32) == (first.data_ptr, second.data_ptr)
        assert first.value == second.value

    @pytest.mark.parametrize(
        ("word", "dtype"),
        [
            ("double", "float64"),
            ("long int", "int64"),
            ("int", "int32"),
            ("short int", "int16"),
            ("signed char", "int8"),
            ("unsigned char", "uint8"),
            ("bool", "bool"),
            ("c10::Half", "float16"),
            ("c10::BFloat16", "bfloat16"),
            ("c10::complex<float>", "complex64"),
        ],
    )
    def test_dtype(self, word, dtype):
        """C++ names become torch's."""
        assert dtype == parse(TENSOR.format(word, 0)).value.dtype

    def test_dtype_that_is_not_known(self):
        """A new C++ name is kept and marked."""
        spec = parse(TENSOR.format("c10::Float3", 0)).value

        assert ("c10::Float3", ("dtype",)) == (spec.dtype, spec.unknown)

    def test_of_a_list(self):
        """Only the first is printed, and it says so."""
        argument = parse(
            "tensors: TensorList size: 3, first tensor of tensorlist: "
            "Tensor size: [4], stride: [1], offset: 0, dtype: float, device ID: 0, "
            "data_ptr: 0x10"
        )

        assert ((4,),) == tuple(each.shape for each in argument.value)
        assert (3, True, 16) == (argument.length, argument.partial, argument.data_ptr)


class TestScalarTensors:
    def test_on_the_npu(self):
        """The number that was read from the device is shown, not the value."""
        argument = parse(
            "out: NPU scalar Tensor: 2.5, [ npuFloatType{} ], dtype: float"
        )

        assert argument.value == TensorSpec(
            dtype="float32", device="npu", shape=(), stride=(), unknown=("offset",)
        )
        assert 2.5 == argument.shown

    def test_on_the_cpu(self):
        """An integer stays one."""
        argument = parse("n: CPU scalar Tensor: 1, [ CPULongType{} ], dtype: long int")

        assert ("cpu", 1) == (argument.value.device, argument.shown)
        assert isinstance(argument.shown, int)

    @pytest.mark.parametrize("text", ["Tensor(capturing)", "FakeTensor"])
    def test_that_has_no_number(self, text):
        """Nothing is shown while a graph is captured and of a fake tensor."""
        argument = parse(f"out: NPU scalar {text}, dtype: float")

        assert (True, None) == (argument.known, argument.shown)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("Scalar: 0.5, type: Double", 0.5, "Scalar Double"),
        ("Scalar: 1, type: Long", 1, "Scalar Long"),
        ("Scalar: True, type: Bool", True, "Scalar Bool"),
        ("Scalar: -inf, type: Double", float("-inf"), "Scalar Double"),
        ("Scalar: (1,-2), type: ComplexDouble", 1 - 2j, "Scalar ComplexDouble"),
        ("int64_t: -1", -1, "int64_t"),
        ("int: 1", 1, "int"),
        ("bool: 0", False, "bool"),
        ("float: 0.1", 0.1, "float"),
        ("double: 1e-05", 1e-05, "double"),
        ("char*: BNSD", "BNSD", "char*"),
        ("char*: ", "", "char*"),
        ("int8_t: \x01", 1, "int8_t"),
        ("int8_t: \xff", -1, "int8_t"),
        ("int8_t: ", 0, "int8_t"),
        ("ScalarType: Float", Constant(kind="dtype", text="float32"), "ScalarType"),
        ("Undefined Tensor!", None, "Undefined Tensor"),
        ("Optional None Tensor", None, "Optional Tensor"),
        ("Optional None ArrayRef<c10::SymInt>", None, "Optional ArrayRef<c10::SymInt>"),
        ("IntArrayRef size: 2, elements: [0, 1]", (0, 1), "IntArrayRef"),
        ("IntArrayRef size: 0, elements: []", (), "IntArrayRef"),
        ("ArrayRef<c10::SymInt> size: 1, elements: [2]", (2,), "ArrayRef<c10::SymInt>"),
        (
            "std::array<bool, N> size: 3, elements: [1, 0, 1]",
            (True, False, True),
            "std::array<bool, N>",
        ),
        (
            "ArrayRef<at::Scalar> size: 1, elements: [2], dtype for first element: Double",
            (2.0,),
            "ArrayRef<at::Scalar>",
        ),
        ("Empty TensorList", (), "TensorList"),
        ("Empty at::ArrayRef<bool>", (), "at::ArrayRef<bool>"),
    ],
)
def test_value(text, value, kind):
    """Every kind of argument that torch_npu prints."""
    argument = parse(f"x: {text}")

    assert (value, kind, True) == (argument.value, argument.kind, argument.known)
    assert type(value) is type(argument.value)


def test_long_list_is_marked():
    """Of more than 20 elements only the first are printed."""
    elements = ", ".join(map(str, range(20)))
    argument = parse(f"x: IntArrayRef size: 32, first 20 elements: {elements}")

    assert (tuple(range(20)), 32, True) == (
        argument.value,
        argument.length,
        argument.partial,
    )


@pytest.mark.parametrize(
    "text",
    [
        "unknown dtype, please report an issue to op-plugin.",
        "int64_t: many",
        "Tensor size: [2, 3], str",
        "Scalar: one, type: Long",
        "bool: 2",
    ],
)
def test_what_is_not_understood_is_kept(text):
    """The text stays, marked as not known."""
    argument = parse(f"x: {text}")

    assert (False, text) == (argument.known, argument.value.text)


@pytest.mark.parametrize("name", ["std::get<0>(y)", "a ? b : c", "self.sizes()"])
def test_name_is_an_expression(name):
    """Names are what stood between the commas in C++."""
    assert name == parse(f"{name}: bool: 1").name
