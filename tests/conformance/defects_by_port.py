"""The defects of every port that has a file of its own; a new file is named here."""

from __future__ import annotations

from tests.conformance.access_defects import ACCESS_DEFECTS
from tests.conformance.alert_defects import ALERT_DEFECTS
from tests.conformance.effect_defects import EFFECT_DEFECTS
from tests.conformance.limit_defects import LIMIT_DEFECTS
from tests.conformance.moving_defects import MOVING_DEFECTS
from tests.conformance.owner_defects import OWNER_DEFECTS
from tests.conformance.quota_defects import QUOTA_DEFECTS
from tests.conformance.sealing_defects import SEALING_DEFECTS
from tests.conformance.searching_defects import SEARCHING_DEFECTS
from tests.conformance.sharing_defects import SHARING_DEFECTS
from tests.conformance.standing_defects import STANDING_DEFECTS
from tests.conformance.survey_defects import SURVEY_DEFECTS
from tests.conformance.tenancy_defects import TENANCY_DEFECTS
from tests.conformance.trailing_defects import TRAILING_DEFECTS
from tests.conformance.vitals_defects import VITALS_DEFECTS

DEFECTS_BY_PORT = [
    *ACCESS_DEFECTS,
    *ALERT_DEFECTS,
    *EFFECT_DEFECTS,
    *LIMIT_DEFECTS,
    *MOVING_DEFECTS,
    *OWNER_DEFECTS,
    *QUOTA_DEFECTS,
    *SEALING_DEFECTS,
    *SEARCHING_DEFECTS,
    *SHARING_DEFECTS,
    *STANDING_DEFECTS,
    *SURVEY_DEFECTS,
    *TENANCY_DEFECTS,
    *TRAILING_DEFECTS,
    *VITALS_DEFECTS,
]
