# SPDX-License-Identifier: BSD-3-Clause
"""How long a page of 50,000 calls takes to write, to open in Chromium, to filter.

Milliseconds until the browser has painted what was asked for; medians of 5.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from npu_dispatch_inspect.export.htmlpage import write_html
from tests.export.html_pages import browser, large_report

RUNS = 5
CALLS = 50_000

FILTER = """async (text) => {
    const search = document.getElementById("search");
    const painted = () => new Promise(done =>
        requestAnimationFrame(() => requestAnimationFrame(done)));
    search.value = "";
    search.dispatchEvent(new Event("input"));
    await painted();
    const start = performance.now();
    search.value = text;
    search.dispatchEvent(new Event("input"));
    const filtered = performance.now() - start;
    await painted();
    return [filtered, performance.now() - start];
}"""
PRESS = """async (selector) => {
    const start = performance.now();
    document.querySelector(selector).click();
    await new Promise(done =>
        requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - start;
}"""


def opened(chromium, address):
    """A page, and milliseconds until its first rows are painted."""
    page = chromium.new_page()
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("#grid tr[data-position]")
    page.evaluate("() => new Promise(done => requestAnimationFrame(done))")
    return page, (time.perf_counter() - start) * 1000


def main():
    """Print the table."""
    report = large_report(CALLS)
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        path = Path(folder) / "report.html"
        start = time.process_time()
        write_html(report, path)
        print(f"{CALLS} calls, {path.stat().st_size / 1e6:.1f} MB")
        print(f"{'write':<34}{(time.process_time() - start) * 1000:>8.0f} ms")
        taken = []
        for _ in range(RUNS):
            page, milliseconds = opened(chromium, path.as_uri())
            taken.append(milliseconds)
            if len(taken) < RUNS:
                page.close()
        print(f"{'open':<34}{statistics.median(taken):>8.0f} ms")
        for text in ("addmm", "layers.17 forward -view", "module:q_proj", "nothing"):
            both = [page.evaluate(FILTER, text) for _ in range(RUNS)]
            filtered, painted = (
                statistics.median(each) for each in zip(*both, strict=True)
            )
            shown = f"{painted:>8.0f} ms, {filtered:.0f} ms of them to filter"
            print(f"{f'search {text!r}':<34}{shown}")
        page.evaluate(FILTER, "")
        for what, selector in (
            ("fold all", "#fold"),
            ("unfold all", "#unfold"),
            ("mark: cast", "#tags button:enabled"),
            ("one module", "#tree .item:nth-child(3)"),
        ):
            milliseconds = page.evaluate(PRESS, selector)
            print(f"{what:<34}{milliseconds:>8.0f} ms")


if __name__ == "__main__":
    main()
