"""Which findings open the report: the heaviest of all pages, and not only those of one."""

from vestige.report.front import MOST, QUIET, take_opening
from vestige.report.types import Finding, Page, Section


def page(name, *weights):
    found = [Finding(name, f"{name} {number}", "note", weight) for number, weight in enumerate(weights)]
    return Page(name, sections=[Section(name, name, found)])


def opened(*pages):
    return [str(finding.text) for finding in take_opening(pages)]


def test_claims_come_first_wherever_they_stand():
    assert opened(page("a", *[0.8] * 9), page("b", 2.0, *[1.0] * 6)) == ["a 0", *(f"b {number}" for number in range(7))]


def test_what_claims_nothing_leaves_room_for_other_pages():
    found = opened(page("a", *[0.8] * 9), page("b", 0.3, 0.3))
    assert found[-2:] == ["b 0", "b 1"] and len(found) == MOST
    assert opened(page("a", *[0.8] * 9), page("b", *[0.4] * 9), page("c", *[0.3] * 9)) == [
        *(f"{name} {number}" for name in "ab" for number in range(QUIET)), "c 0", "c 1",
    ]  # fmt: skip


def test_a_page_alone_has_all_the_room_and_what_opens_is_not_repeated():
    alone = page("a", *[0.8] * 4, 0.1)
    assert opened(alone) == [f"a {number}" for number in range(4)]
    assert [finding.text for finding in alone.findings] == ["a 4"]
