"""Adapts README.md for a package index, where relative links lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"(?P<mark>!?)(?P<text>\[[^\]]*\])\((?!\w+:|#)(?P<path>[^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Sets the readme, with links and pictures at the address of the tagged release."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the readme to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository, tag = metadata["urls"]["Repository"], f"v{metadata['version']}"

        def absolute(link: re.Match[str]) -> str:
            view = "raw" if link["mark"] else "blob"
            return f"{link['mark']}{link['text']}({repository}/{view}/{tag}/{link['path']})"

        readme = _RELATIVE_LINK.sub(absolute, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
