"""One file = one method: `name.py` here, whose class says `name = "name"`, is that analysis.

Third parties add theirs by the entry point group `vestige.analyses`. Nothing heavy is imported before an analysis is
asked for.
"""

from vestige.analyses.registry import analysis_names, find_analysis

__all__ = ["analysis_names", "find_analysis"]
