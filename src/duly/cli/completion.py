"""`duly completion`: prints what a shell needs to complete commands, options and choices."""

from __future__ import annotations

import sys
from typing import Literal

PLACES = {
    "bash": "~/.local/share/bash-completion/completions/duly",
    "zsh": "~/.zfunc/_duly (in $fpath, before compinit)",
    "fish": "~/.config/fish/completions/duly.fish",
}


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that lets a shell complete commands and options.

    Bash: duly completion bash > ~/.local/share/bash-completion/completions/duly. Zsh: into a
    file _duly of a folder in $fpath. Fish: into ~/.config/fish/completions/duly.fish.

    Parameters
    ----------
    shell
        Which: bash, zsh or fish.
    """
    from duly.cli.main import app  # every command is loaded for this, and for nothing else

    sys.stdout.write(app.generate_completion(prog_name="duly", shell=shell))
    if sys.stdout.isatty():
        sys.stderr.write(f"# put this into {PLACES[shell]}\n")
