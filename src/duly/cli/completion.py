"""`duly completion`: prints what a shell needs to complete commands, options and choices."""

from __future__ import annotations

import sys
from typing import Literal

PLACES = {
    "bash": "~/.local/share/bash-completion/completions/duly",
    "zsh": "~/.zfunc/_duly (in $fpath, before compinit)",
    "fish": "~/.config/fish/completions/duly.fish",
}

ZSH_END = """
# From a folder of $fpath this file is the function _duly itself; sourced, it says whose it is.
if [[ $funcstack[1] == _duly ]]; then
  _cyclopts_duly "$@"
else
  compdef _cyclopts_duly duly
fi
"""
"""What the library leaves out: without it zsh knows how to complete, and never does."""


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that lets a shell complete commands and options.

    Bash: duly completion bash > ~/.local/share/bash-completion/completions/duly. Zsh: into a
    file _duly of a folder in $fpath, or source it after compinit. Fish: into
    ~/.config/fish/completions/duly.fish.

    Parameters
    ----------
    shell
        Which: bash, zsh or fish.
    """
    from duly.cli.main import app  # every command is loaded for this, and for nothing else

    script = app.generate_completion(prog_name="duly", shell=shell)
    sys.stdout.write(script + (ZSH_END if shell == "zsh" else ""))
    if sys.stdout.isatty():
        sys.stderr.write(f"# put this into {PLACES[shell]}\n")
