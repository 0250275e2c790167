"""A browser that a model can use: pages as text with numbers, and actions on those numbers. Playwright drives it, and is seen here alone."""

from handloom.browser.settings import BrowserSettings

__all__ = ["BrowserSettings"]
