"""What a section of the page is made of: a heading, a line that says what is shown, charts and tables."""

from dataclasses import dataclass, field

from vestige.report.findings import Finding
from vestige.report.tables import Table
from vestige.report.trees import Drawing

Folded = tuple[str, list[str], list[Table]]
"""Title, charts and tables of what stays folded."""


@dataclass
class Block:
    """A heading, a line that says what is shown, and then charts and tables."""

    heading: str
    lede: str
    charts: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    folded: list[Folded] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)


@dataclass
class Section:
    """All that is shown of one task."""

    title: str
    name: str
    findings: list[Finding]
    blocks: list[Block]
