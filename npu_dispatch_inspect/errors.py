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
    """Base class: something the user can mend, said in one sentence."""


class UsageError(InspectError):
    """A call was made in a way that cannot work (wrong value, wrong moment)."""


class RecordError(InspectError):
    """A record, trace or file cannot be read or written."""


class StandInError(InspectError):
    """The host stand-in for CANN cannot be built or loaded."""


class ValuesError(InspectError, RuntimeError):
    """The values of an operator on the stand-in cannot be computed on the CPU.

    A RuntimeError as well, as an operator that fails on a device raises one.
    """


class UnknownNameError(UsageError, KeyError):
    """A name (operator, overload, dispatch key) that is not there.

    A KeyError as well, so that the mappings of this library behave as mappings.
    """

    def __str__(self) -> str:
        """The sentence itself; KeyError alone would print it in quotes."""
        return str(self.args[0])
