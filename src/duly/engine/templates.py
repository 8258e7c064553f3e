"""Templates: the definitions that planning asks for, read in batches and kept while in use."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from duly.domain.identity import ScheduleId
from duly.domain.settling import Template
from duly.domain.zones.database import default_zones
from duly.errors import STORE_AWAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duly.domain.schedules import Definition
    from duly.engine.surroundings import Surroundings

TemplateKey = tuple[ScheduleId, int]


class Templates:
    """Definitions by schedule and number, under our release of time-zone rules."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._known: dict[TemplateKey, Template] = {}
        self._is_default = around.node.zones is default_zones()

    def fetch(self, keys: Iterable[TemplateKey]) -> Mapping[TemplateKey, Template]:
        """Return templates, reading those that are not known yet; what can't be read is left out.

        There may be more of them than are kept.
        """
        known = self._known
        wanted = dict.fromkeys(keys)
        found = {key: known[key] for key in wanted if key in known}
        missing = [key for key in wanted if key not in found]
        page = self._around.settings.definitions_page
        for first in range(0, len(missing), page):
            for key, definition in self._read(missing[first : first + page]).items():
                template = self._made(key, definition)
                if template is not None:
                    found[key] = template
                    self._keep(key, template)
        return found

    def _read(self, keys: Sequence[TemplateKey]) -> Mapping[TemplateKey, Definition]:
        store = self._around.store
        try:
            return store.read_definitions(keys)
        except STORE_AWAY:
            raise
        except Exception:  # noqa: BLE001 - one that can't be read must not hide the others
            found: dict[TemplateKey, Definition] = {}
            for key in keys:
                found |= self._read_one(key)
            return found

    def _read_one(self, key: TemplateKey) -> Mapping[TemplateKey, Definition]:
        try:
            return self._around.store.read_definitions([key])
        except STORE_AWAY:
            raise
        except Exception:  # noqa: BLE001 - as above; whoever needs it says that it is missing
            return {}

    def _made(self, key: TemplateKey, definition: Definition) -> Template | None:
        try:
            mine = definition if self._is_default else definition.under(self._around.node.zones)
        except Exception:  # noqa: BLE001 - its zone may be missing from our release
            return None
        return Template(*key, mine)

    def _keep(self, key: TemplateKey, template: Template) -> None:
        if len(self._known) >= self._around.settings.definitions_max:
            # Every second one: who goes round more than there is room for would find none of them
            # if the oldest went first.
            self._known = dict(islice(self._known.items(), 0, None, 2))
        self._known[key] = template
