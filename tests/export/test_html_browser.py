# SPDX-License-Identifier: BSD-3-Clause
"""HTML pages in a real browser: what a reader sees, presses and types."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from attrs import evolve

from npu_dispatch_inspect.export.htmlpage import write_html
from npu_dispatch_inspect.traces.ops import OpTrace
from tests.export.html_pages import CHROMIUM, browser, large_report
from tests.report_examples import DEVICE, training_step
from tests.training_trace import EMPTY, LOGS, TRACE

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"
)

NASTY = "aten::</script><script>document.title='run'</script>"
ROWS = "#grid tr[data-position]"


@pytest.fixture(name="chromium", scope="module")
def _chromium():
    with browser() as chromium:
        yield chromium


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


def nasty_trace():
    """A trace whose label, operator and module are called like a script."""
    records = [evolve(TRACE[0], name=NASTY, module=NASTY, root="Net"), TRACE[1]]
    return OpTrace(records=records, environment=DEVICE, label=NASTY)


PAGES = {
    "step": training_step,
    "trace": lambda: TRACE,
    "logs": lambda: LOGS,
    "empty": lambda: EMPTY,
    "nasty": nasty_trace,
    "small": lambda: large_report(60),
    "large": lambda: large_report(50_000),
}


@pytest.fixture(name="opened")
def _opened(chromium, folder):
    """Opens pages by name, and checks that none complained or asked for anything."""

    @contextmanager
    def opened(name, **options):
        said, asked = [], []
        path = folder / f"{name}.html"
        if not path.exists():
            write_html(PAGES[name](), path)
        options = {"viewport": {"width": 1440, "height": 900}, **options}
        context = chromium.new_context(**options)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        yield page
        assert asked == [path.as_uri()]
        assert said == []
        context.close()

    return opened


def operators(page):
    """The names in the rows on the screen."""
    return [
        text.lstrip("▸▾") for text in page.locator(f"{ROWS} .cell-op").all_inner_texts()
    ]


def row_of(page, operator):
    """The first row of an operator."""
    return page.locator(ROWS, has=page.locator(".cell-op", has_text=operator)).first


def count(page):
    """``"2 of 12 calls"``."""
    return page.locator("#count").inner_text()


class TestFilters:
    """Search, marks, phases, modules, charts."""

    def test_words_must_all_fit(self, opened):
        """Each word narrows; a column, a minus and quotes do as the help says."""
        with opened("step") as page:
            found = {}
            for text in (
                "addmm",
                "ADDMM fc2",
                "module:fc1 aclnnAddmm",
                "-fc1 -fc2 -via",
                '"fc1 forward"',
                "npu:0",
                "op:linear -verdict:composite",
            ):
                page.fill("#search", text)
                found[text] = operators(page)
        assert found == {
            "addmm": ["aten::linear", "aten::linear", "aten::addmm"] * 2,
            "ADDMM fc2": ["aten::linear", "aten::linear", "aten::addmm"],
            "module:fc1 aclnnAddmm": ["aten::linear", "aten::linear", "aten::addmm"],
            "-fc1 -fc2 -via": ["aten::digamma.out", "aten::copy_", "aten::abs"],
            '"fc1 forward"': [],
            "npu:0": [],
            "op:linear -verdict:composite": [],
        }

    def test_nothing_found_is_said_and_can_be_cleared(self, opened):
        """An empty table says why, and one button brings everything back."""
        with opened("step") as page:
            page.fill("#search", "no such operator")
            assert page.locator("#nothing").is_visible()
            assert count(page) == "0 of 12 calls"
            page.click("#clear")
            assert page.locator("#nothing").is_hidden()
            assert page.input_value("#search") == ""

    def test_marks_show_fallbacks_casts_and_copies(self, opened):
        """Each mark shows its rows, two of them those of both."""
        with opened("step") as page:
            marks = page.get_by_role("group", name="Marks")
            cast = marks.get_by_role("button", name="cast 2")
            cast.click()
            assert operators(page) == ["aten::_to_copy", "aten::_to_copy"]
            assert cast.get_attribute("aria-pressed") == "true"
            marks.get_by_role("button", name="copy 1").click()
            assert operators(page) == ["aten::_to_copy"] * 2 + ["aten::copy_"]
            cast.click()
            marks.get_by_role("button", name="copy 1").click()
            marks.get_by_role("button", name="on the CPU 1").click()
            assert operators(page) == ["aten::digamma.out"]
            assert marks.get_by_role("button", name="raised 0").is_disabled()

    def test_phases(self, opened):
        """A phase shows its calls alone."""
        with opened("step") as page:
            page.get_by_role("button", name="backward 1").click()
            assert operators(page) == ["aten::mm"]

    def test_a_module_shows_the_calls_below_it(self, opened):
        """A click in the tree filters, and a chip says so and takes it back."""
        with opened("step") as page:
            page.get_by_role("treeitem", name="fc1 Linear, 4 calls").click()
            assert count(page) == "4 of 4 calls"
            chip = page.locator(".chip")
            assert chip.inner_text() == "Modules: Net.fc1×"
            chip.click()
            assert page.locator(".chip").count() == 0

    def test_a_bar_of_a_chart_shows_its_calls(self, opened):
        """A click on a bar filters by that value and nothing else."""
        with opened("step") as page:
            page.locator("#charts .bar", has_text="CPU fallback").click()
            assert operators(page) == ["aten::digamma.out"]
            page.locator("#charts .bar", has_text="CPU fallback").click()
            page.locator("#charts .bar", has_text="no module").click()
            assert count(page) == "3 of 12 calls"

    def test_a_finding_leads_to_its_row(self, opened):
        """What the verdict lists is opened in the table by a click, folded or not."""
        with opened("step") as page:
            page.fill("#search", "something else")
            page.locator(".finding", has_text="host and device").locator(
                "summary"
            ).click()
            page.locator(".finding button", has_text="device to host").first.click()
            assert (
                page.locator("#grid tr.selected .cell-op").inner_text() == "aten::copy_"
            )
            assert page.locator("#details h2").inner_text() == "aten::copy_"
            page.locator(".finding.bad .all").click()
            assert operators(page) == ["aten::digamma.out"]


class TestRows:
    """Folding and details."""

    def test_what_is_inside_a_fallback_is_folded(self, opened):
        """The inside of a fallback is shown when asked for."""
        with opened("step") as page:
            row = page.locator(ROWS, has_text="digamma")
            assert count(page) == "11 of 12 calls (others are folded)"
            assert row.get_attribute("aria-expanded") == "false"
            row.locator(".arrow").click()
            assert count(page) == "12 of 12 calls"
            page.click("#fold")
            assert operators(page) == [
                "aten::linear", "aten::linear", "aten::digamma.out", "aten::mm", "aten::abs",
            ]  # fmt: skip
            page.click("#unfold")
            assert count(page) == "12 of 12 calls"

    def test_a_click_opens_everything_that_is_known(self, opened):
        """Way, kernels, launch, arguments, line, and the calls around and inside."""
        with opened("step") as page:
            row_of(page, "addmm").click()
            panel = page.locator("#details")
            titles = panel.locator("h3").all_text_contents()
            assert titles == [
                "Called inside",
                "Verdict",
                "Source line",
                "Kernels on the way",
                "Launch",
                "Arguments",
                "Results",
                "Circumstances",
            ]
            assert "PrivateUse1 kernel\nRegisterNPU.cpp:34325" in panel.inner_text()
            assert panel.locator(".launch b").inner_text() == "aclnnAddmm"
            panel.locator(".link").first.click()
            assert panel.locator("h2").inner_text() == "aten::linear"
            assert "Calls made inside" in panel.locator("h3").all_text_contents()

    def test_forward_and_backward_lead_to_each_other(self, opened):
        """The partner is a link in both directions."""
        with opened("small") as page:
            page.fill("#search", "op:addmm")
            page.locator(ROWS).first.click()
            panel = page.locator("#details")
            panel.locator("section", has_text="Backward calls").locator(".link").click()
            assert panel.locator("h2").inner_text() == "aten::mm"
            panel.locator("section", has_text="Forward call").locator(".link").click()
            assert panel.locator("h2").inner_text() == "aten::addmm"

    def test_log_lines_have_a_page_too(self, opened):
        """A launch opens its arguments and the line."""
        with opened("logs") as page:
            page.locator(ROWS, has_text="aclnnGelu").click()
            assert "EXEC_NPU_CMD aclnnGelu" in page.locator("#details pre").inner_text()

    def test_an_empty_trace_shows_no_table(self, opened):
        """Where nothing was called there is the verdict alone."""
        with opened("empty") as page:
            assert page.locator("#explorer").is_hidden()
            assert page.get_by_text("No operator was called.").is_visible()


class TestKeyboard:
    """Everything without a mouse."""

    def test_search_move_open_close(self, opened):
        """Slash, words, Enter, arrows, Enter, Escape, Escape."""
        with opened("step") as page:
            page.keyboard.press("/")
            page.keyboard.type("addmm")
            page.keyboard.press("Enter")
            assert page.evaluate("document.activeElement.id") == "grid"
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowDown")
            row = page.locator("#grid tr[aria-selected=true]")
            active = page.get_attribute("#grid", "aria-activedescendant")
            assert (row.get_attribute("id"), active) == ("row3", "row3")
            page.keyboard.press("Enter")
            assert page.locator("#details").is_visible()
            page.keyboard.press("ArrowUp")
            assert page.locator("#details h2").inner_text() == "aten::linear"
            page.keyboard.press("Escape")
            assert page.locator("#details").is_hidden()
            assert count(page) == "6 of 12 calls"
            page.keyboard.press("Escape")
            assert count(page) == "11 of 12 calls (others are folded)"

    def test_a_slash_in_the_field_is_a_slash(self, opened):
        """Where somebody types, the key is a character."""
        with opened("step") as page:
            page.keyboard.press("/")
            page.keyboard.type("a/b")
            assert page.input_value("#search") == "a/b"

    def test_fold_with_the_arrows(self, opened):
        """Right opens, left closes, then goes to the call around."""
        with opened("step") as page:
            page.focus("#grid")
            page.keyboard.press("Home")
            page.keyboard.press("ArrowLeft")
            assert count(page) == "8 of 12 calls (others are folded)"
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowLeft")
            assert page.locator("#grid tr.selected").get_attribute("id") == "row0"

    def test_the_tree_by_keys(self, opened):
        """Down, Enter filters; left closes a module, right opens it."""
        with opened("trace") as page:
            page.locator("#tree .item").first.focus()
            for key in ("ArrowDown", "ArrowDown", "Enter"):
                page.keyboard.press(key)
            assert count(page) == "10 of 10 calls"
            page.keyboard.press("ArrowLeft")
            item = page.locator("#tree .item:focus")
            assert item.get_attribute("aria-expanded") == "false"
            assert page.locator("#tree .item").count() == 4
            page.keyboard.press("ArrowRight")
            assert page.locator("#tree .item").count() == 7

    def test_everything_can_be_reached_and_has_a_name(self, opened):
        """Every control has an accessible name, and the focus is seen."""
        with opened("step") as page:
            page.locator(ROWS).first.click()
            nameless = page.evaluate(
                """[...document.querySelectorAll("button, input, [role=treeitem]")]
                .filter(e => !(e.getAttribute("aria-label") || e.textContent.trim()))
                .length"""
            )
            page.keyboard.press("Tab")
            outline = page.evaluate(
                "getComputedStyle(document.activeElement).outlineStyle"
            )
        assert (nameless, outline) == (0, "solid")


class TestSight:
    """Colours, sizes, paper."""

    def test_dark_as_the_system_has_it_and_by_the_button(self, opened):
        """The page follows the system until its button is pressed."""
        back = "getComputedStyle(document.documentElement).backgroundColor"
        light, dark = "rgb(246, 247, 249)", "rgb(20, 23, 28)"
        with opened("step", color_scheme="dark") as page:
            assert page.evaluate(back) == dark
            page.get_by_role("button", name="Switch to light colours").click()
            assert page.evaluate(back) == light
            page.get_by_role("button", name="Switch to dark colours").click()
            assert page.evaluate(back) == dark
        with opened("step", color_scheme="light") as page:
            assert page.evaluate(back) == light

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_text_can_be_read(self, opened, scheme):
        """Every text colour has a contrast of at least 4.5 to its background."""
        with opened("step", color_scheme=scheme) as page:
            row_of(page, "addmm").click()
            assert page.evaluate(LOW_CONTRAST) == []

    def test_a_narrow_screen(self, opened):
        """Nothing sticks out, the tree comes by a button, details from below."""
        with opened("step", viewport={"width": 400, "height": 800}) as page:
            assert page.evaluate("document.documentElement.scrollWidth") == 400
            assert page.locator("#tree").is_hidden()
            page.click("#modules")
            assert page.locator("#tree").is_visible()
            page.locator(ROWS).first.click()
            box = page.locator("#details").bounding_box()
            assert (box["x"], box["y"] + box["height"]) == (0, 800)

    def test_paper_has_the_rows(self, opened):
        """For printing the rows are written out, without buttons."""
        with opened("step") as page:
            closed = page.locator(".finding:not([open])").count()
            page.emulate_media(media="print")
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            assert page.locator("#printed tbody tr").count() == 11
            assert page.locator("#printed").is_visible()
            assert page.locator("#explorer").is_hidden()
            assert page.locator(".finding:not([open])").count() == 0
            page.evaluate("dispatchEvent(new Event('afterprint'))")
            assert page.locator("#printed tbody tr").count() == 0
            assert page.locator(".finding:not([open])").count() == closed > 0

    def test_the_verdict_needs_no_script(self, opened):
        """Where scripts are off the verdict and the findings are still there."""
        with opened("step", java_script_enabled=False) as page:
            assert page.get_by_text("1 call ran on the CPU").is_visible()
            assert page.get_by_text("which is off here").is_visible()
            assert page.locator("#explorer").is_hidden()


def test_markup_in_a_name_is_shown_as_text(opened):
    """An operator called like a script is a name in table, tree, chart and details."""
    with opened("nasty") as page:
        page.locator(ROWS).first.click()
        assert operators(page)[0] == NASTY
        assert page.locator("#details h2").inner_text() == NASTY
        assert page.locator("h1").inner_text() == NASTY
        assert page.title() == NASTY
        assert (
            page.locator("#tree .item .name").nth(2).inner_text()
            == NASTY.partition(".")[0]
        )
        page.fill("#search", "<script>")
        assert count(page) == "1 of 2 calls"


def test_fifty_thousand_calls(opened):
    """Only the rows on the screen are drawn, and the last one can be reached."""
    with opened("large") as page:
        page.click("#unfold")
        assert count(page) == "50,000 of 50,000 calls"
        assert page.locator(ROWS).count() < 100
        page.focus("#grid")
        page.keyboard.press("End")
        selected = page.locator("#grid tr.selected")
        assert selected.locator(".cell-number").inner_text() == "49999"
        assert selected.is_visible()
        assert selected.get_attribute("aria-rowindex") == "50001"
        page.fill("#search", "module:layers.17.mlp aclnnMm")
        assert count(page) == "65 of 50,000 calls"


LOW_CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data;
    };
    const light = (color) => {
        const [r, g, b] = [...rgb(color)].slice(0, 3).map((each) => {
            const part = each / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const back = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const color = getComputedStyle(each).backgroundColor;
            if (rgb(color)[3] === 255) return color;
        }
        return "white";
    };
    const low = [];
    for (const element of document.body.querySelectorAll("*")) {
        const own = [...element.childNodes].some(
            (node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility() || element.closest(":disabled")) continue;
        const pair = [light(getComputedStyle(element).color), light(back(element))];
        pair.sort((a, b) => b - a);
        const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (ratio < 4.5) low.push(`${element.className}: ${ratio.toFixed(2)}`);
    }
    return low;
}"""
