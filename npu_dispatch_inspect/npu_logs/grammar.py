# SPDX-License-Identifier: BSD-3-Clause
"""The shapes of the lines that torch_npu prints, as regular expressions.

The shape in front of a message changed several times, also between post
releases of one version, so it is recognised for every record anew and never
derived from a version:

- ``[time] logger: [LEVEL]`` in torch_npu releases of the first half of 2025,
- with process and thread from the autumn of 2025 on,
- like glog (``I0715 11:20:31.045123 812 file:line]``) since May 2026.

Text is matched as Latin-1, one character for each byte: positions are then
positions in the source whatever bytes it holds. The expressions for whole
records match in one step the head line and the argument lines that belong to
it: the loops over them decide how fast a file is read.
"""

from __future__ import annotations

import re

__all__ = [
    "ARGUMENT_LINE",
    "CLOSING_LINE",
    "ERROR",
    "ERROR_CODE",
    "ERROR_OPERATOR",
    "FALLBACK",
    "HEAD",
    "INDEX_ENTRY",
    "KIND_AT",
    "MESSAGE_LIMITS",
    "NOTHING_LOGGED",
    "PLOG_LINE",
    "RECORD",
    "TORCH_LINE",
    "TORCH_NPU_RUN",
    "WRAPPER",
]

MESSAGE_LIMITS = (1023, 4095)
"""Bytes after which a message was cut (short and long functions, less the NUL)."""


def _compiled(pattern: str) -> re.Pattern[str]:
    # Letters beyond ASCII are bytes of something else here.
    return re.compile(pattern, re.ASCII)


_EOL = r"\r?\n"

_KIND = (
    r"(?:Tensor (?:size|npu_format): |Scalar: |unknown dtype, "
    r"|int(?:64_t|8_t(?!: \r?\n))?: "
    r"|(?:bool|float|double|char\*|ScalarType|u?int(?:16|32)_t|uint64_t): "
    r"|uint8_t: (?!\r?\n)"
    r"|NPU scalar |CPU scalar |Optional None |Undefined Tensor!"
    r"|IntArrayRef size: |(?:at::|c10::)?ArrayRef<|std::array<"
    r"|TensorList size: |Empty |No extra debug |Debug info for |FakeTensor )"
)
# Names are C++ expressions: they may hold "::" and even ": " (a ? b : c), so
# only a colon in front of a known kind ends one.
_SLOW_NAME = (
    # What a launcher puts in front of a line is none, and a prefix is none.
    r"(?![\[\x1b]|\d{4}-|[VIWEF]\d{4} |\([^()\n]*\bpid=|[A-Za-z][\w.-]* {2,}\| )"
    r"[^\n:]*(?::(?! " + _KIND + r")[^\n:]*)*"
)
_ARGUMENT = r"(?:\w+|" + _SLOW_NAME + r"): " + _KIND + r"[^\n]*\n"
# An int8_t is printed as a raw character; a zero one ends the C string.
_CUT = r"[^\n:]*: u?int8_t: " + _EOL
_CLOSE = r"(?:" + _CUT + r"|" + _EOL + r")"

KIND_AT = _compiled(r"(\w+|" + _SLOW_NAME + r"): (?=" + _KIND + r"|u?int8_t: )")
"""Splits an argument line: group 1 is the name, the value begins at the end."""

ARGUMENT_LINE = _compiled(_ARGUMENT)
CLOSING_LINE = _compiled(_CLOSE)

_CLOCK = r"\d\d:\d\d:\d\d"
# The three literal files make up most lines; matching them as such is quicker.
_GLOG_PLACE = (
    r"(?: (?:\.\./torch_npu/csrc/(?:core/npu/NPUQueue|framework/OpParamMaker"
    r"|framework/OpCommand)\.cpp|\.\./third_party/op-plugin/op_plugin/"
    r"OpInterface_\d+\.cpp|[^\]\n]{0,400}):\d+)?"
)
_GLOG_TIME = r"\d{4} " + _CLOCK + r"\.\d{6}"
_RANK = r"(?:\[rank:\d+\] )?"
_GLOG = r"[VIWEF]" + _GLOG_TIME + r" ( *\d+" + _GLOG_PLACE + r"\] " + _RANK + r")"
_BRACKET_TIME = r"\d{4}-\d\d-\d\d " + _CLOCK + r":\d{3}"
_BRACKET = (
    r"((?:\[rank:\d+\]:)?(?:\[\d+\] )?\[)" + _BRACKET_TIME + r"(\] torch[\w.]*: "
    r"\[(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\] (?:\[\d+\] )?)"
)
_OPERATOR = (
    r"(\w+) (exec aten|EXEC_[A-Z_]+|Detail info)"
    r"( with(?: task_queue = \d+)?| stream_id=-?\d+, aic_num=-?\d+ aiv_num=-?\d+"
    r" with(?: task_queue = \d+)?|:) *" + _EOL
)

HEAD = _compiled(r"(?:" + _GLOG + r"|" + _BRACKET + r")")
"""Only what stands in front of a message."""

RECORD = _compiled(
    r"(?:" + _GLOG + r"|" + _BRACKET + r")"
    r"(?:" + _OPERATOR + r"((?:" + _ARGUMENT + r")*)(" + _CLOSE + r")?"
    r"|([^\n]*)\n)"
)
"""A whole record, complete lines only.

Groups: 1 what follows the time of a glog prefix; 2 and 3 what stands before and
after the time of a bracket prefix; 4 operator; 5 command; 6 what follows the
command; 7 argument lines; 8 the line that closes the record; 9 the message of a
record that has none of these.
"""

INDEX_ENTRY = _compiled(
    r"(?:[VIWEF]"
    + _GLOG_TIME
    + r"  *\d+"
    + _GLOG_PLACE
    + r"\] "
    + _RANK
    + r"|(?:\[rank:\d+\]:)?(?:\[\d+\] )?\["
    + _BRACKET_TIME
    + r"\] torch[\w.]*: "
    r"\[[A-Z]+\] (?:\[\d+\] )?)"
    r"(?:(\w+) (exec aten|EXEC_[A-Z_]+|Detail info)[^\n]*\n"
    r"(?:" + _ARGUMENT + r")*" + _CLOSE + r"?"
    r"|([\w.]*)[^\n]*\n)"
)
"""A whole record of which only the name matters.

Groups: operator and command, or the first word of any other message.
"""

# What only torch_npu prints: a plain glog line may come from any library, so
# the file or the command must tell.
_OWN_BODY = r"(?:" + _ARGUMENT + r")*" + _CLOSE + r"?"
_OWN_OPERATOR = (
    r"(?:\w+ exec aten with|\w+ EXEC_[A-Z_]+ [^\n]*with[^\n]*|\w+ Detail info:) *"
    + _EOL
    + _OWN_BODY
)
_OWN_GLOG = (
    r"[VIWEF]" + _GLOG_TIME + r"  *\d+(?:"
    r" \.\./torch_npu/csrc/[^\n]*\n"
    r"|(?: [^\]\n]{0,400}(?:torch_npu|op[-_]plugin)[^\]\n]{0,400})?\] "
    + _RANK
    + _OWN_OPERATOR
    + r"| [^\]\n]{0,400}(?:torch_npu|op[-_]plugin)[^\]\n]{0,400}\] [^\n]*\n)"
)
_OWN_BRACKET = (
    r"(?:\[rank:\d+\]:)?(?:\[\d+\] )?\[" + _BRACKET_TIME + r"\] torch_npu[\w.]*: "
    r"\[[A-Z]+\] (?:\[\d+\] )?(?:" + _OWN_OPERATOR + r"|[^\n]*\n)"
)
# The bound keeps the state that the engine holds for backtracking small.
TORCH_NPU_RUN = re.compile(
    (r"(?:" + _OWN_GLOG + r"|" + _OWN_BRACKET + r"){1,256}").encode()
)
"""As many records of torch_npu as follow each other; everything else is foreign.

This one matches bytes.
"""

TORCH_LINE = _compiled(
    r"\[([VIWEF])(\d{3,4} " + _CLOCK + r"\.\d{9})? ([^\s\]]+):(\d+)\] "
)
"""PyTorch's own warnings. Groups: letter, time, file, line."""

PLOG_LINE = _compiled(
    r"\[([A-Z]+) *\] ([A-Z_0-9]+)\((\d+),[^)\n]*\):"
    r"(\d{4}-\d\d-\d\d-" + _CLOCK + r"\.\d{3}\.\d{3}) "
    r"\[([^\s\]]+):(\d+)\] ?(\d+)? ?(?:([A-Za-z_~][^\s:\"]*(?:::[^\s:\"]+)*):"
    r"(?:\d+:)? ?)?"
    r"(\"?\[PTA\]:\"?)?"
)
"""CANN's own files.

Groups: level, module, process, time, file, line, thread, function, torch_npu's
mark.
"""

_COLOUR = r"(?:\x1b\[[\d;]*m)*"
WRAPPER = _compiled(
    r"(?:"
    + _COLOUR
    + r"(?:\[[A-Za-z_]+\d*\]: ?|\([^()\n]*\bpid=\d+[^()\n]*\)"
    + _COLOUR
    + r" ?|[A-Za-z][\w.-]* {2,}\| |"
    r"\d{4}-\d\d-\d\d[T ]" + _CLOCK + r"(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? "
    r"(?:std(?:out|err) [FP] )?)" + _COLOUR + r")+"
)
"""What torchrun, Ray and container logs put in front of every line."""

NOTHING_LOGGED = _compiled(r"Failed to generate log (?:message|prefix)")
"""A record that did not fit was dropped whole; this is said once per process."""

FALLBACK = _compiled(
    r"The operator '([^']+)' is not currently supported on the NPU backend"
)

ERROR = _compiled(
    r"current working operator name is \w|call aclnn\w{1,200} failed"
    r"|NPU function error|ERR\d{5} PTA call acl api failed"
    r"|aclnn\w{1,200} or aclnn\w{1,200}GetWorkspaceSize not in "
)
"""A line that tells of an error of the device or of a call into CANN."""

ERROR_OPERATOR = _compiled(
    r"current working operator name is (\w{1,200})|call (aclnn\w{1,200})"
    r"|(aclnn\w{1,200}) or \3GetWorkspace"
)
ERROR_CODE = _compiled(r"error code is (\d+)")
