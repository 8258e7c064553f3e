"""Templates: the definitions that planning asks for, read in batches and kept while in use."""

from __future__ import annotations

from collections import OrderedDict
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
        self._known: OrderedDict[TemplateKey, Template] = OrderedDict()
        self._is_default = around.node.zones is default_zones()

    def find(self, key: TemplateKey) -> Template | None:
        """Return a template that was read before."""
        return self._known.get(key)

    def fetch(self, keys: Iterable[TemplateKey]) -> None:
        """Read those that are not known yet; what can't be read stays unknown."""
        known = self._known
        missing = [key for key in keys if key not in known]
        if not missing:
            return
        missing = [*dict.fromkeys(missing)]
        page = self._around.settings.definitions_page
        for first in range(0, len(missing), page):
            chosen = missing[first : first + page]
            for key, definition in self._read(chosen).items():
                self._keep(key, definition)

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

    def _keep(self, key: TemplateKey, definition: Definition) -> None:
        try:
            mine = definition if self._is_default else definition.under(self._around.node.zones)
        except Exception:  # noqa: BLE001 - its zone may be missing from our release
            return
        self._known[key] = Template(key[0], key[1], mine)
        if len(self._known) > self._around.settings.definitions_max:
            self._known.popitem(last=False)
