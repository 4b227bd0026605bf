# SPDX-License-Identifier: BSD-3-Clause
"""The errors this library raises on purpose.

Every message is one sentence that says what is wrong and what to do about it,
so that the command line can print it as it is and exit with status 2.
"""

__all__ = ["InspectError", "RecordError", "StandInError", "UsageError"]


class InspectError(Exception):
    """Base class: something the user can mend, said in one sentence."""


class UsageError(InspectError):
    """A call was made in a way that cannot work (wrong value, wrong moment)."""


class RecordError(InspectError):
    """A record, trace or file cannot be read or written."""


class StandInError(InspectError):
    """The host stand-in for CANN cannot be built or loaded."""
