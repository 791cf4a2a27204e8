"""What every analysis owes: rows of declared metrics alone, and of each declared metric a row or a reason."""

from vestige.analyses.base import Analysis, Inputs, Outcome, check_rows


def run(analysis: Analysis, inputs: Inputs) -> Outcome:
    """The outcome, if it keeps what the analysis declares."""
    outcome = analysis.run(inputs)
    check_rows(analysis, outcome)
    there = {row["metric"] for row in outcome.rows}
    assert {metric.name for metric in analysis.given} - there == set(outcome.absent)
    assert {metric.name for metric in analysis.given} <= {metric.name for metric in analysis.metrics}
    return outcome
