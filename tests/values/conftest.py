# SPDX-License-Identifier: BSD-3-Clause
"""Values in this process, for the tests of one module."""

import pytest


@pytest.fixture(scope="module")
def computed():
    """Compute values while the tests of a module run."""
    import torch  # noqa: F401 - loads torch_npu

    from npu_dispatch_inspect import values
    from npu_dispatch_inspect.standin.loader import _runtime

    runtime = _runtime()
    runtime.ndi_compute_elsewhere(1)
    end = values.switch_on()
    yield
    end()
    runtime.ndi_compute_elsewhere(0)
