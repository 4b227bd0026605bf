# SPDX-License-Identifier: BSD-3-Clause
"""Values in this process, for the tests of one module."""

import contextlib

import pytest


@contextlib.contextmanager
def computing(unknown=None):
    """A block in which values are computed; afterwards all is as it was."""
    import torch  # noqa: F401 - loads torch_npu

    from npu_dispatch_inspect import values
    from npu_dispatch_inspect.standin import loader

    loaded = loader._loaded
    end = values.switch_on(unknown)
    try:
        yield
    finally:
        end()
        loader._loaded = loaded
        loader._unknown_values.clear()


@pytest.fixture(scope="module")
def computed():
    """Compute values while the tests of a module run."""
    with computing():
        yield


@pytest.fixture
def choose():
    """Compute values in one test, with a choice for unknown ones."""
    with contextlib.ExitStack() as stack:
        yield lambda unknown=None: stack.enter_context(computing(unknown))
