"""Types of settings that have bounds; a study whose values lie outside of them is refused when it is read."""

import math
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt, MinLen

Count = Annotated[int, Ge(1)]
Whole = Annotated[int, Ge(0)]
Positive = Annotated[float, Gt(0), Lt(math.inf)]
Penalty = Annotated[float, Ge(0), Lt(math.inf)]
Share = Annotated[float, Gt(0), Le(1)]
Dropped = Annotated[float, Ge(0), Lt(1)]
Some = MinLen(1)
"""Of a list: at least one."""
