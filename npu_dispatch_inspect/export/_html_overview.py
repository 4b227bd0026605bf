# SPDX-License-Identifier: BSD-3-Clause
"""The upper part of a page: it can be read where no script may run, and on paper."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from npu_dispatch_inspect.export._html_model import Entry, Finding, Page
from npu_dispatch_inspect.records import Environment

__all__ = ["environment_pairs", "overview", "text_of"]

MAX_ENTRIES = 40
"""A finding lists so many lines; the table has them all."""


def overview(page: Page) -> str:
    """Verdict, figures, what stands out, environment; every text escaped."""
    return "".join(_overview(page))


def _overview(page: Page) -> Iterator[str]:
    if page.environment is not None and page.environment.stand_in:
        yield f'<p class="standin" role="note">{text_of(_standin(page.environment))}</p>'
    yield f'<section class="verdict {page.tone}" aria-label="Verdict">'
    yield f"<p class=headline>{text_of(page.headline)}</p>"
    if page.below:
        yield f"<p class=below>{text_of(page.below)}</p>"
    yield "</section>"
    yield '<ul class="figures" aria-label="Figures">'
    for label, number, tag, tone in page.figures:
        shown = f"<b>{number:,}</b> <span>{text_of(label)}</span>"
        tone_of = tone if number else "none"
        if tag is not None and number:
            shown = f'<button type="button" data-tag="{text_of(tag)}">{shown}</button>'
        yield f'<li class="{tone_of}">{shown}</li>'
    yield "</ul>"
    if page.findings:
        yield '<section class="findings" aria-label="Findings">'
        for place, finding in enumerate(page.findings):
            yield from _finding(finding, opened=place == 0 and finding.tone == "bad")
        yield "</section>"
    if page.environment is not None:
        yield "<details class=environment><summary>"
        yield f"<span>Environment</span> <i>{text_of(_short(page.environment))}</i>"
        yield "</summary><dl>"
        for name, value in environment_pairs(page.environment):
            yield f"<div><dt>{text_of(name)}</dt><dd>{text_of(value)}</dd></div>"
        yield "</dl></details>"


def _finding(finding: Finding, *, opened: bool) -> Iterator[str]:
    yield f'<details class="finding {finding.tone}"{" open" if opened else ""}>'
    count = sum(each.times for each in finding.entries)
    number = f" <b>{count:,}</b>" if count else ""
    yield f"<summary><span>{text_of(finding.title)}</span>{number}</summary><div>"
    for each in finding.text:
        yield f"<p>{text_of(each)}</p>"
    if finding.code:
        yield f"<pre>{text_of(finding.code)}</pre>"
    if finding.entries:
        yield "<ul>"
        for entry in finding.entries[:MAX_ENTRIES]:
            yield f"<li>{_entry(entry)}</li>"
        yield "</ul>"
    more = len(finding.entries) - MAX_ENTRIES
    if more > 0:
        yield f"<p>... {more} more</p>"
    if finding.tag is not None:
        yield f'<button type="button" class="all" data-tag="{text_of(finding.tag)}">'
        yield "Show in the table</button>"
    yield "</div></details>"


def _entry(entry: Entry) -> str:
    text = f"<code>{text_of(entry.text)}</code>"
    if entry.number is not None:
        text = f'<button type="button" data-number="{entry.number}">{text}</button>'
    if entry.place:
        text += f" <span class=place>{text_of(entry.place)}</span>"
    if entry.times > 1:
        text += f" <span class=times>{entry.times} times</span>"
    return text


def _standin(environment: Environment) -> str:
    nothing = {
        "none": ": nothing was computed",
        "cpu": ": the CPU computed the values",
    }.get(environment.values or "", "")
    return (
        f"Made on the host stand-in for CANN{nothing}. Operators, kernels, launches and "
        "tasks are torch_npu's own; times say nothing about a device."
    )


def _short(environment: Environment) -> str:
    device = environment.device or "device unknown"
    if environment.soc:
        device += f" ({environment.soc})"
    parts = [device]
    if environment.torch:
        parts.append(f"torch {environment.torch}")
    if environment.torch_npu:
        parts.append(f"torch_npu {environment.torch_npu}")
    return " · ".join(parts)


def environment_pairs(environment: Environment) -> Iterator[tuple[str, str]]:
    """What is known of the environment, by name."""
    pairs = (
        ("device", environment.device),
        ("SoC", environment.soc),
        ("values", environment.values),
        ("torch", environment.torch),
        ("torch_npu", environment.torch_npu),
        ("CANN", environment.cann),
        ("Python", environment.python),
        ("platform", environment.platform),
        ("jit_compile", _switch(environment.jit_compile)),
        ("internal format", _switch(environment.internal_format)),
        ("autocast", ", ".join(environment.autocast) or None),
        ("grad mode", environment.grad_mode),
        ("npu_dispatch_inspect", environment.tool),
        *environment.switches,
    )
    return ((name, value) for name, value in pairs if value is not None)


def _switch(value: bool | None) -> str | None:  # noqa: FBT001 - a switch is on or off
    return None if value is None else "on" if value else "off"


def text_of(text: str) -> str:
    """Any text as it may stand in HTML, in elements and in quoted attributes."""
    # ASCII alone: lone surrogates, which log lines may have, cannot be written.
    return escape(text).encode("ascii", "xmlcharrefreplace").decode("ascii")
