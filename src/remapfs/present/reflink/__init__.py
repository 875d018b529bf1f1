"""A plan made a real directory, with its bytes shared with the source where the file system can."""

from remapfs.present.reflink.export import Exported, ExportOptions, export_plan
from remapfs.present.reflink.steps import Reflink

__all__ = ["ExportOptions", "Exported", "Reflink", "export_plan"]
