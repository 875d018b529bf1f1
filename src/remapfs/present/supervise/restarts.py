"""When a server that died is started again, and when no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# A server that served for this long did work, so whatever killed it was not the start or one request.
_HEALTHY_SECONDS: Final = 0.1
# A server may be killed twice in a row by chance; what kills it again and again needs time to go away.
_FREE: Final = 2
_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 5.0
# With the delays above, readers wait for about 6 s until they are told that it is over.
_MOST: Final = 10


@dataclass(frozen=True, slots=True)
class Restarts:
    """How many servers in a row died before they had served for a moment. Immutable."""

    failures: int = 0

    def after(self, served: float) -> Restarts:
        """Count the death of a server that had served for `served` seconds, 0 if it never began."""
        return Restarts(0 if served >= _HEALTHY_SECONDS else self.failures + 1)

    @property
    def exhausted(self) -> bool:
        """Whether one more start would be in vain."""
        return self.failures >= _MOST

    @property
    def delay(self) -> float:
        """Seconds to wait before the next start: none at first, then twice as long each time."""
        if self.failures <= _FREE:
            return 0.0
        return min(_FIRST_DELAY * 2.0 ** (self.failures - _FREE - 1), _LONGEST_DELAY)
