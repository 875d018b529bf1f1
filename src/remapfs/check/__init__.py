"""Whether a plan would load: against another checkpoint, or against vLLM's own loader."""

from remapfs.check.model import Answer, Judged, Outcome

__all__ = ["Answer", "Judged", "Outcome"]
