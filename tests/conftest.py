"""Options of the test suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --accept, which rewrites the golden files of the situations."""
    parser.addoption("--accept", action="store_true", help="rewrite the golden files")
