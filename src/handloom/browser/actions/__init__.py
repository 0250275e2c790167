"""What can be done to a page. Each action says in a line what it did; what the page made of it is in the next state."""

from handloom.browser.actions.filling import input_text, select_option, send_keys, upload_file
from handloom.browser.actions.going import go_back, navigate, tab
from handloom.browser.actions.looking import MOST_WAIT, find_text, screenshot, wait
from handloom.browser.actions.mouse import Button, click, click_at, drag, hover, scroll

__all__ = [
    "MOST_WAIT",
    "Button",
    "click",
    "click_at",
    "drag",
    "find_text",
    "go_back",
    "hover",
    "input_text",
    "navigate",
    "screenshot",
    "scroll",
    "select_option",
    "send_keys",
    "tab",
    "upload_file",
    "wait",
]
