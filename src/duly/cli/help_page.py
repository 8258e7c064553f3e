"""How `--help` is set: what an option means is one paragraph, wherever its source breaks lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

# What is imported within is loaded when somebody asks for help; other commands start without it.


class HelpPage:
    """Sets a page of help as cyclopts does, with the words of each option run together."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one panel."""
        from cyclopts.help import DefaultFormatter, InlineText
        from rich.text import Text

        for entry in panel.entries:
            told = entry.description
            if isinstance(told, InlineText) and isinstance(told.primary_renderable, Text):
                told.primary_renderable = Text(" ".join(told.primary_renderable.plain.split()))
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        """Print how a command is called."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(
        self, console: Console, options: ConsoleOptions, description: object
    ) -> None:
        """Print what a command does."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_description(console, options, description)


def tell_default(value: object) -> str | None:
    """Say what holds when an option is not given; nothing, where that is nothing."""
    return None if value is None or value is False or value == () else str(value)
