# SPDX-License-Identifier: BSD-3-Clause
"""The errors this library raises on purpose.

Every message is one sentence that says what is wrong and what to do about it,
so that the command line can print it as it is and exit with status 2.
"""

__all__ = [
    "InspectError",
    "RecordError",
    "StandInError",
    "UnknownNameError",
    "UsageError",
    "ValuesError",
]


class InspectError(Exception):
    """Base class: something the user can mend, said in one sentence.

    Example:
        >>> from npu_dispatch_inspect import InspectError, OpTracer
        >>> try:
        ...     tracer = OpTracer(engine="fast")
        ... except InspectError as error:
        ...     print(type(error).__name__)
        UsageError
    """


class UsageError(InspectError):
    """A call was made in a way that cannot work (wrong value, wrong moment).

    Example:
        >>> from npu_dispatch_inspect import OpTracer, UsageError
        >>> try:
        ...     tracer = OpTracer(engine="fast")
        ... except UsageError as error:
        ...     print(error)
        engine must be one of ['dispatch_mode', 'dispatcher'], not 'fast'.
    """


class RecordError(InspectError):
    """A record, trace or file cannot be read or written.

    Example:
        >>> from npu_dispatch_inspect import RecordError, read_logs
        >>> try:
        ...     log = read_logs("no-such.log")
        ... except RecordError as error:
        ...     print(error)
        Cannot read the log file 'no-such.log': no such file or directory.
    """


class StandInError(InspectError):
    """The host stand-in for CANN cannot be built or loaded.

    Example:
        >>> from npu_dispatch_inspect import StandInError, standin
        >>> try:
        ...     standin.load(device_name="Ascend000")
        ... except StandInError as error:
        ...     print(type(error).__name__)
        StandInError
    """


class ValuesError(InspectError, RuntimeError):
    """The values of an operator on the stand-in cannot be computed on the CPU.

    A RuntimeError as well, as an operator that fails on a device raises one.

    Example:
        >>> from npu_dispatch_inspect import ValuesError
        >>> try:
        ...     raise ValuesError("The stand-in has no formula for npu::npu_iou.")
        ... except RuntimeError as error:
        ...     print(error)
        The stand-in has no formula for npu::npu_iou.
    """


class UnknownNameError(UsageError, KeyError):
    """A name (operator, overload, dispatch key) that is not there.

    A KeyError as well, so that the mappings of this library behave as mappings.

    Example:
        >>> from npu_dispatch_inspect import UnknownNameError, read_dispatch_table
        >>> try:
        ...     table = read_dispatch_table("aten::adm")
        ... except UnknownNameError as error:
        ...     print(error)
        There is no operator 'aten::adm': did you mean aten::addmv or aten::addmm?
    """

    def __str__(self) -> str:
        """The sentence itself; KeyError alone would print it in quotes."""
        return str(self.args[0])
