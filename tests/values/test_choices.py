# SPDX-License-Identifier: BSD-3-Clause
"""What the user chooses: values or not, and what becomes of unknown ones."""

import warnings

import pytest
import torch

from npu_dispatch_inspect import StandInError, ValuesError, standin, trace_ops
from npu_dispatch_inspect.display.text import environment_line
from npu_dispatch_inspect.environment import read_environment

pytestmark = pytest.mark.npu

NPU = "npu:0"


def without_a_formula():
    """An operator of torch_npu that has none, and whose results are numbers."""
    import torch_npu

    x = torch.ones(4, device=NPU)
    return torch_npu.npu_deep_norm(x, x, x, x)[2]


def refused_by_the_cpu():
    """The NPU's kernel takes any index; the CPU's looks at them."""
    table = torch.zeros(3, 2, device=NPU)
    return torch.nn.functional.embedding(torch.tensor([7], device=NPU), table)


def test_an_operator_without_a_formula_warns_once_and_gives_nan(choose):
    """The warning stands at the user's line; records say unknown from then on."""
    choose()
    with warnings.catch_warnings(record=True) as caught, trace_ops() as trace:
        warnings.simplefilter("always")
        first, second = without_a_formula(), without_a_formula()
    (warning,) = (each for each in caught if "no formula" in str(each.message))

    assert "npu::npu_deep_norm" in str(warning.message)
    assert __file__ == warning.filename
    assert first.isnan().all()
    assert second.isnan().all()
    assert [2.0, 2.0] == (torch.ones(2, device=NPU) + 1).tolist()
    assert "unknown" == trace.environment.values == standin.info().values
    assert ("npu::npu_deep_norm",) == standin.unknown_values()
    assert "values computed on the CPU, some unknown" in environment_line(
        trace.environment
    )


@pytest.mark.filterwarnings("ignore:.*no formula")
def test_unknown_values_can_be_zeros(choose):
    """With unknown="zeros" they are."""
    choose("zeros")
    assert [0.0, 0.0, 0.0, 0.0] == without_a_formula().tolist()


def test_unknown_values_can_be_an_error(choose):
    """With unknown="raise" the operator is named, and the next one runs."""
    choose("raise")
    with pytest.raises(
        ValuesError, match=r"no formula for npu::npu_deep_norm, so .*\.$"
    ):
        without_a_formula()
    assert [2.0, 2.0] == (torch.ones(2, device=NPU) + 1).tolist()
    assert () == standin.unknown_values()


def test_a_call_that_the_cpu_refuses_names_the_operator(choose):
    """The error says which operator, why, and how to go on; the process is whole."""
    choose()
    with pytest.raises(RuntimeError) as raised:
        refused_by_the_cpu()

    assert ValuesError is raised.type
    assert (
        "aten::embedding has a kernel on the NPU, but the CPU cannot compute it "
        "(IndexError: index out of range in self); change the call, or go on without its "
        'values with standin.load(values="cpu", unknown="nan").'
    ) == str(raised.value)
    assert isinstance(raised.value.__cause__, IndexError)
    assert [2.0, 2.0] == (torch.ones(2, device=NPU) + 1).tolist()


def test_a_call_that_the_cpu_refuses_can_be_unknown(choose):
    """With unknown="nan" the program goes on with NaN and a warning."""
    choose("nan")
    with pytest.warns(RuntimeWarning, match="aten::embedding has a kernel on the NPU"):
        result = refused_by_the_cpu()
    assert (1, 2) == result.shape
    assert result.isnan().all()


def test_an_error_of_the_npus_own_kernel_stays_what_it_is(choose):
    """Where torch_npu refuses a call, its error is the one that is raised."""
    choose()
    x = torch.ones(1, 2, 2, 2, device=NPU)
    with pytest.raises(RuntimeError, match="Only contiguous_format") as raised:
        x.to(torch.float16, memory_format=torch.channels_last)
    assert ValuesError is not raised.type


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "npu"}, "values must be 'none'"),
        (
            {"values": "cpu", "unknown": "inf"},
            "unknown must be 'nan', 'zeros' or 'raise'",
        ),
        ({"unknown": "nan"}, "goes with values='cpu' only"),
        ({"values": "cpu", "device_count": 2}, "already loaded with values='none'"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_in_one_sentence(options, message):
    """Wrong words, words that do not go together, and a change of mind."""
    with pytest.raises(StandInError, match=message) as raised:
        standin.load(**options)
    assert 1 == str(raised.value).count(".")


def test_without_a_choice_nothing_is_computed():
    """The environment of a process that did not ask says none."""
    assert "none" == read_environment().values
    assert "nothing is computed" in environment_line(read_environment())


def test_the_command_line_computes_values(tmp_path, python):
    """`run --stand-in --values cpu` gives an unmodified program its numbers."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "from npu_dispatch_inspect import standin\n"
        "standin.load()\n"
        "x = torch.arange(4.).npu()\n"
        "print(x[x > 1].tolist(), standin.info().values)\n"
    )
    done = python(
        f"""
        import sys
        from npu_dispatch_inspect.cli import main
        sys.exit(main(["run", "--stand-in", "--values", "cpu", {str(script)!r}]))
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="1",
    )
    assert (0, "[2.0, 3.0] cpu\n") == (done.returncode, done.stdout), done.stderr
    assert "stand-in (Ascend910B1), values computed on the CPU" in done.stderr
    assert "aclnnNonzeroV2" in done.stderr
    assert "values/" not in done.stderr
