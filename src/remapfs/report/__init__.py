"""A plan, or an answer about one, as a page to look at."""

from remapfs.report.file import write_report
from remapfs.report.page import report

__all__ = ["report", "write_report"]
