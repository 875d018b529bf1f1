"""Whether a plan would load: against another checkpoint, or against vLLM's own loader."""

from remapfs.check.model import Answer, Judged, Outcome
from remapfs.check.reference import Reference, Wanted, read_reference

__all__ = ["Answer", "Judged", "Outcome", "Reference", "Wanted", "read_reference"]
