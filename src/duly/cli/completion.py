"""Completes what is typed: the scripts for shells, and the answer when such a script asks.

The scripts know nothing of the commands. They call `duly __complete WORD…` with the words so far,
the last one unfinished, and get a candidate on each line: a word, a tab, and what it means. Where
there is none, the shell completes names of files.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyclopts import App
    from cyclopts.argument import Argument

ORDER = "__complete"
"""What scripts call; it is for no person, and in no help."""

BASH = """\
# Completion of duly for bash. It asks the program, so it needs no renewal.
_duly() {
  local line=${COMP_LINE:0:COMP_POINT} words  # COMP_WORDS is broken at : and =
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local IFS=$'\\n' last=${words[${#words[@]}-1]}
  COMPREPLY=($("${words[0]}" __complete "${words[@]:1}" 2>/dev/null | cut -f1))
  [[ $last == *=* ]] && COMPREPLY=("${COMPREPLY[@]#*=}")
  return 0
}
complete -o default -F _duly duly
"""
ZSH = """\
#compdef duly
# Completion of duly for zsh. It asks the program, so it needs no renewal.
_duly() {
  local -a found
  local line
  for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
  done
  if (( $#found )); then _describe duly found; else _files; fi
}
# From a folder of $fpath this file is the function itself; sourced, it says whose it is.
if [[ $funcstack[1] == _duly ]]; then _duly "$@"; else compdef _duly duly; fi
"""
FISH = """\
# Completion of duly for fish. It asks the program, so it needs no renewal.
function __duly_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l found ($words[1] __complete $words[2..-1] "$typed" 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path "$typed"
    end
end
complete -c duly -f -a '(__duly_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
PLACES = {
    "bash": "~/.local/share/bash-completion/completions/duly",
    "zsh": "~/.zfunc/_duly (in $fpath, before compinit)",
    "fish": "~/.config/fish/completions/duly.fish",
}


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that lets a shell complete commands, options and choices.

    Bash: duly completion bash > ~/.local/share/bash-completion/completions/duly. Zsh: into a
    file _duly of a folder in $fpath, or source it after compinit. Fish: into
    ~/.config/fish/completions/duly.fish. The script asks duly itself at each key.

    Parameters
    ----------
    shell
        Which: bash, zsh or fish.
    """
    sys.stdout.write(SCRIPTS[shell])
    if sys.stdout.isatty():
        sys.stderr.write(f"# put this into {PLACES[shell]}\n")


def print_candidates(app: App, words: list[str]) -> None:
    """Print what the last word may become."""
    *before, typed = words or [""]
    if "--" in before:
        return  # what stands there is another program's
    for word, meaning in _candidates(app, before, typed):
        if word.startswith(typed):
            sentence = " ".join(meaning.partition("\n\n")[0].split()).partition(". ")[0]
            sys.stdout.write(f"{word}\t{sentence.rstrip('.')}\n")


def _candidates(app: App, before: list[str], typed: str) -> Iterator[tuple[str, str]]:
    _, commands, after = app.parse_commands(before)
    command = commands[-1]
    if not after and not typed.startswith("-"):
        yield from _subcommands(command)
    if command.default_command is None:
        return
    arguments = [
        one for one in command.assemble_argument_collection(parse_docstring=True) if one.show
    ]
    option = after[-1] if after else ""
    valued = [one for one in arguments if option in one.names and one.token_count()[0]]
    name, separator, _ = typed.partition("=")
    if valued:
        yield from _choices(valued)
    elif separator:
        yield from _choices([one for one in arguments if name in one.names], f"{name}=")
    elif typed.startswith("-"):
        for one in arguments:
            yield from ((name, one.parameter.help or "") for name in one.parameter.name or ())
    else:
        yield from _choices([one for one in arguments if one.field_info.is_positional])


def _subcommands(group: App) -> Iterator[tuple[str, str]]:
    for name in group:
        if not name.startswith("-"):
            # Not group[name]: that loads the command, to say what its help says here as well.
            yield name, str(getattr(group._commands[name], "help", "") or "")  # noqa: SLF001


def _choices(arguments: list[Argument], prefix: str = "") -> Iterator[tuple[str, str]]:
    for one in arguments:
        for choice in one.get_choices(force=True) or ():
            yield f"{prefix}{choice}", ""
