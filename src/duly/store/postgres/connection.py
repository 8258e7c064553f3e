"""Connections to one database: opened when needed, shared between threads, let go in doubt.

Nothing is kept in a session of the server's, so whoever hands out its connections anew for every
transaction may stand between. A connection whose state is not known for sure is closed, and the
next call opens another one: that is all it takes to come back after a restart or a failover.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import psycopg
from psycopg import conninfo, errors
from psycopg.pq import TransactionStatus

from duly.errors import SchemaMismatch, StoreUnavailable, UsageError
from duly.store import migrating
from duly.store.ports.dispatch import MemberKind
from duly.store.postgres import arrays, gates, schema
from duly.store.postgres.bell import Bell
from duly.store.postgres.borrowing import Borrowing, Speaking
from duly.store.postgres.broom import Broom
from duly.store.postgres.claiming import Aim
from duly.store.postgres.failures import failure
from duly.store.postgres.handing import Offering, Offers
from duly.store.postgres.held_up import HeldUp
from duly.store.postgres.plans_ahead import PlansAhead
from duly.store.postgres.prepared import FORGET_PLANS
from duly.store.postgres.session import BoundedConnection, ConnectionSession, as_query, first, one
from duly.store.postgres.side_by_side import SideBySide
from duly.store.postgres.stock import Stock
from duly.store.postgres.urls import read_url, safe_name
from duly.store.postgres.work import Look, Work
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Cursor

    from duly.clock import Clock
    from duly.store.ports.maintenance import Migration
    from duly.store.postgres.session import Session

CONNECTIONS_MAX = 16
PREPARE_AFTER = 3
OPEN_LIMIT_S = 5.0
CANCEL_LIMIT_S = 2.0
MIGRATION_LIMIT_US = 3600 * SECOND_US

WHO_ANSWERS = """
SELECT pg_backend_pid(), current_setting('server_version_num')::int4,
    current_setting('default_transaction_isolation'), current_setting('search_path')"""
SERVER_OLDEST = 150_000
# Estimates of what a batch holds are rough: what they cost is not worth compiling for.
# Nobody's function is taken for one of the server's own: ours are called by their full names.
# And what is acknowledged is on a disk, whatever was chosen for others' work in this database.
SET_UP = """SET jit = off;
SET statement_timeout = '{}ms';
SELECT set_config('client_connection_check_interval', '1s', false)
WHERE version() !~* 'windows|visual c';
SET default_transaction_isolation = 'read committed'; SET search_path = pg_catalog, pg_temp;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'"""
# A dispatcher's statements all go by an index, in its order: a plan by any other way was made while
# a table was nearly empty, and an index that is read in order remembers which of its entries are
# dead. Knowing the values makes no plan better, and planning a claim takes as long as claiming
# hundreds of runs: the server would try five times whether that pays.
SET_UP_DISPATCH = """; SET enable_seqscan = off; SET enable_bitmapscan = off;
SET plan_cache_mode = force_generic_plan"""
# Whoever stands still in the middle lets go of what he holds before a lease has run out.
BEGIN_WRITE = """BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = '2s'; SET LOCAL idle_in_transaction_session_timeout = '3s'"""
# A dispatcher has one thread for everything: nothing is worth its standing still.
BEGIN_DISPATCH = BEGIN_WRITE.replace("lock_timeout = '2s'", "lock_timeout = '500ms'")
# An index on a large table takes its time; a lock that others wait behind is not waited for long.
BEGIN_MIGRATION = """BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = 0"""
BEGIN_CHECK = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0"
# A snapshot that stands still keeps everything that has been deleted since.
BEGIN_READ = """BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = '3s'"""
READ_CLUSTER = """
SELECT duly.now_us(), shards, program_min, identity::text || '/' || current_database()::text
FROM duly.cluster WHERE id = 1"""
FIRST_LOOK = READ_CLUSTER.replace("FROM", f", ({schema.READ_ACCESS}) FROM")
PLANS_KEPT_US = 15 * SECOND_US
"""A plan that was made while a table was small may be bad once it has grown: none gets old."""

_all: WeakSet[Connections] = WeakSet()
_abandoned: list[BoundedConnection] = []
"""What a fork left us of the parent's connections: closing them would end the parent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """How a database is used; the defaults suit a dispatcher."""

    limit_us: int = 30 * SECOND_US
    """How long to wait for an answer to whatever people ask."""
    dispatch_limit_us: int = 3 * SECOND_US
    """The same for dispatchers: with a renewal that is a second and a half old, one unanswered
    statement must leave room for the next renewal before a lease of five seconds has run out."""
    connections_max: int = CONNECTIONS_MAX
    fire_connections: int = 2
    """How many statements of one batch may run at the same time."""
    migrations: tuple[Migration, ...] = field(default_factory=schema.known_migrations)
    """The schema that this program knows."""


class Concerning(Protocol):
    """Something that was committed, and whom it concerns."""

    @property
    def has_arrivals(self) -> bool:
        """Say whether dispatchers are to be woken."""
        ...

    @property
    def has_orders(self) -> bool:
        """Say whether workers are to be woken."""
        ...


class Connections:
    """The connections of one store object."""

    is_callers = False
    """Whether all is part of a transaction that is the caller's to commit."""

    def __init__(self, url: str, clock: Clock, settings: PostgresSettings, shards: int) -> None:
        self._parameters = read_url(url)
        self.name = safe_name(self._parameters)
        self.clock = clock
        self.settings = settings
        self.held_up = HeldUp(clock)
        self.aim = Aim(clock)
        self.shards = shards
        """How many there are to be when the store is made; from then on, how many there are."""
        self.identity = ""
        """Of the store and its database, so that a copy of it is another one."""
        self._schema_number = max(migration.number for migration in settings.migrations)
        self.is_ready = False
        self.keeps_tenants = False
        """Whether the server shows this role one tenant's rows only, and has to be told whose."""
        self._is_closed = False
        self._is_interrupted = False
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        """Make what belongs to one process: threads, locks, and an empty stock."""
        self.bell = Bell(self)
        self.broom = Broom(self)
        self.offers = Offers(self.clock)
        self.offering = Offering(self.clock)
        self.plans_ahead = PlansAhead(self)
        self.side_by_side = SideBySide(self.settings.fire_connections)
        most = self.settings.connections_max
        # A program's threads may use up theirs, and a dispatcher in it goes on all the same.
        self._room = {kind: threading.BoundedSemaphore(most) for kind in (True, False)}
        self.idle = {kind: Stock() for kind in (True, False)}
        """Those for dispatchers, and those for everybody else."""
        self._first_use = threading.Lock()
        self._reading: set[BoundedConnection] = set()
        """Lent to who reads. Its own operations are atomic."""

    def begin_in_child(self) -> None:
        """Leave everything to the parent, whose locks and connections they are."""
        for stock in self.idle.values():
            _abandoned.extend(stock)
        self._begin()

    def interrupt(self) -> None:
        """Break off what is being read, and let nobody begin to: the program is about to end.

        A statement that may write is never cancelled (`BoundedConnection.wait`). So no connection
        goes back into the stock from now on: what is cancelled too late meets no other statement.
        """
        self._is_interrupted = True
        for connection in tuple(self._reading):
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=CANCEL_LIMIT_S)

    def close(self) -> None:
        """Close every connection; whatever was committed stays."""
        self.bell.close()
        self.broom.close()
        self.offering.close()
        self.side_by_side.close()
        self._is_closed = True
        for stock in self.idle.values():
            stock.close()

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Say what an error of the driver's means."""
        try:
            yield
        except psycopg.Error as error:
            raise failure(error, self.name) from error

    def statement(self, *, for_dispatch: bool = False) -> Speaking:
        """Lend a session for statements that each are a transaction of their own."""
        return Speaking(self, None, for_dispatch=for_dispatch)

    @contextmanager
    def write(self, limit_us: int | None = None, *, for_dispatch: bool = False) -> Iterator[Work]:
        """Open a short transaction: it commits, or nothing of it happens."""
        with self.borrowed(limit_us, for_dispatch=for_dispatch) as connection:
            self.get_ready(connection)
            session = ConnectionSession(connection, is_ours=True)
            begin = self.beginning(BEGIN_DISPATCH if for_dispatch else BEGIN_WRITE)
            with transaction(connection, begin):
                work = self.begin(session)
                yield work
        self.ring_for(work)
        if work.freed:
            gates.open_freed(self, work.freed)

    def beginning(self, begin: str) -> str:
        """Return how a transaction begins."""
        return begin

    def ring_for(self, done: Concerning) -> None:
        """Wake whom it concerns what was committed."""
        if done.has_arrivals:
            self.bell.ring()
        if done.has_orders:
            self.bell.ring(MemberKind.WORKER)

    def begin(self, session: Session) -> Work:
        """Read the time, and what every operation needs to know of the store."""
        row = first(session, READ_CLUSTER)
        if row is None:
            problem = "sees the database as it was before the store was made"
            raise UsageError("connection", None, problem, "begin its transaction anew")
        now, shards, program_min, identity = row
        if self.identity and identity != self.identity:
            problem = "is a connection to another database than the store's"
            raise UsageError("connection", None, problem, f"give one to {self.name}")
        self.refuse_newer(session, program_min)
        return Work(session, now, shards)

    def refuse_newer(self, session: Session, program_min: int) -> None:
        """Refuse to go on when somebody has migrated the database beyond what we know."""
        if program_min > self._schema_number:
            self._require_usable(session)

    @contextmanager
    def checking(self) -> Iterator[Look]:
        """Open a snapshot of any schema, to look at all there is: that may take its time."""
        with (
            self.borrowed(MIGRATION_LIMIT_US) as connection,
            transaction(connection, BEGIN_CHECK),
        ):
            yield Look(ConnectionSession(connection, is_ours=True), 0)

    @contextmanager
    def read(self, *, for_dispatch: bool = False, is_any_age: bool = False) -> Iterator[Look]:
        """Open a snapshot; it waits for nobody. Of any schema, when that is what is looked at."""
        with self.borrowed(for_dispatch=for_dispatch) as connection:
            if not is_any_age:
                self.get_ready(connection)
            session = ConnectionSession(connection, is_ours=True)
            self._reading.add(connection)
            try:
                self._refuse_interrupted()
                begin = self.beginning(BEGIN_READ)
                # What time it is comes with the answer to that: no round trip of its own.
                asking = begin if is_any_age else f"{begin}; {schema.READ_NOW}"
                with transaction(connection, asking) as answer:
                    yield Look(session, 0 if is_any_age else _last_number(answer))
            finally:
                self._reading.discard(connection)

    def _refuse_interrupted(self) -> None:
        # After it is known who reads: either they are seen by who interrupts, or they see it.
        if self._is_interrupted:
            raise StoreUnavailable(self.name, "is no longer read: the program ends", "start it")

    @contextmanager
    def migrating(self) -> Iterator[tuple[BoundedConnection, Session]]:
        """Lend a connection for migrations, each of which is a transaction of its own."""
        with self.borrowed(MIGRATION_LIMIT_US) as connection:
            yield connection, ConnectionSession(connection, is_ours=True)

    def borrowed(self, limit_us: int | None = None, *, for_dispatch: bool = False) -> Borrowing:
        """Lend a connection; one that comes back in doubt is closed."""
        return Borrowing(self, limit_us, for_dispatch=for_dispatch)

    def take(self, limit_s: float, *, for_dispatch: bool) -> BoundedConnection:
        """Take a connection out of the stock, or open one; whoever has it gives it back."""
        if not self._room[for_dispatch].acquire(timeout=limit_s):
            problem = "is kept busy by other threads of this program"
            raise StoreUnavailable(self.name, problem, "try again, or allow more connections")
        try:
            idle = self._find_idle(limit_s, for_dispatch=for_dispatch)
            taken = idle or self.open(limit_s, for_dispatch=for_dispatch)
        except BaseException:
            self._room[for_dispatch].release()
            raise
        taken.used_by = threading.get_ident()
        return taken

    def give_back(self, connection: BoundedConnection, error: BaseException | None) -> None:
        """Put a connection back into the stock, if it is known to be fit for it."""
        try:
            self._put_away(connection, error)
            if error is None:
                self._refuse_doubt(connection)
        finally:
            self._room[connection.is_for_dispatch].release()

    def open(
        self, limit_s: float = OPEN_LIMIT_S, *, for_dispatch: bool = False
    ) -> BoundedConnection:
        """Open a connection, on which nothing is waited for longer than a limit."""
        if self._is_closed:
            raise StoreUnavailable(self.name, "has been closed", "open it again")
        conninfo_text = conninfo.make_conninfo(**self._parameters)
        connection = BoundedConnection.connect(conninfo_text, autocommit=True)
        connection.limit_s = limit_s
        connection.prepared = {}
        connection.is_for_dispatch = for_dispatch
        connection.add_notice_handler(connection.hear)
        try:
            arrays.register(connection)
            session = ConnectionSession(connection, is_ours=True)
            process, version, isolation, connection.search_path = one(session, WHO_ANSWERS)
            self._refuse_old_server(version)
            connection.is_pooled = process != connection.info.backend_pid
            if connection.is_pooled:
                self._refuse_isolation(isolation)
            connection.prepare_threshold = None if connection.is_pooled else PREPARE_AFTER
            connection.planned_at = self.clock.monotonic_us()
            if not connection.is_pooled:
                limit_ms = self.settings.limit_us // 1000
                set_up = SET_UP.format(limit_ms) + (SET_UP_DISPATCH if for_dispatch else "")
                connection.execute(as_query(set_up), prepare=False)
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse_old_server(self, version: int) -> None:
        if version < SERVER_OLDEST:
            problem = f"is PostgreSQL {version // 10_000}, which is too old"
            raise StoreUnavailable(self.name, problem, "use PostgreSQL 15 or newer")

    def _refuse_isolation(self, isolation: str) -> None:
        """Refuse a pooler's connection on which a second look would see no more than the first.

        On a connection of our own we choose; a pooler's is not ours to change.
        """
        if isolation != "read committed":
            problem = f"begins its transactions as {isolation}"
            remedy = "ALTER ROLE … SET default_transaction_isolation = 'read committed'"
            raise StoreUnavailable(self.name, problem, remedy)

    def _find_idle(self, limit_s: float, *, for_dispatch: bool) -> BoundedConnection | None:
        while (connection := self.idle[for_dispatch].take()) is not None:
            if self._is_made_fit(connection, limit_s):
                return connection
            connection.close()
        return None

    def _is_made_fit(self, connection: BoundedConnection, limit_s: float) -> bool:
        """Give an idle connection its limit, forget its old plans; False if it does not answer."""
        connection.limit_s = limit_s
        monotonic = self.clock.monotonic_us()
        if not connection.is_pooled and monotonic - connection.planned_at > PLANS_KEPT_US:
            connection.planned_at = monotonic
            try:
                connection.execute(FORGET_PLANS, prepare=False)
            except psycopg.Error:
                return False
            except BaseException:
                connection.close()
                raise
        return True

    def look_after_idle(self, do: Callable[[BoundedConnection], None]) -> None:
        """Do something to each idle connection for dispatch, if we may have one more in use."""
        if self._room[True].acquire(blocking=False):
            try:
                self.idle[True].look_after(do)
            finally:
                self._room[True].release()

    def _put_away(self, connection: BoundedConnection, error: BaseException | None) -> None:
        is_doubtful = isinstance(error, (psycopg.OperationalError, errors.ReadOnlySqlTransaction))
        is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        is_doubtful = is_doubtful or connection.is_in_doubt or connection.is_spent
        is_ending = self._is_closed or self._is_interrupted
        if is_idle and not is_doubtful and not is_ending:
            self.idle[connection.is_for_dispatch].put(connection)
        else:
            connection.close()

    def _refuse_doubt(self, connection: BoundedConnection) -> None:
        """Acknowledge nothing that no standby is known to have."""
        if connection.is_in_doubt:
            problem = "was told to wait no longer for a standby: what was done may yet be lost"
            raise StoreUnavailable(self.name, problem, "look whether it is there, and order again")

    def get_ready(self, connection: BoundedConnection) -> None:
        """At the first use, make the schema in an empty database, and refuse one of another age."""
        if self.is_ready:
            return
        with self._first_use:
            if self.is_ready:
                return
            session = ConnectionSession(connection, is_ours=True)
            if not schema.has_schema(session):
                with transaction(connection, BEGIN_MIGRATION):
                    schema.create(session, self.settings.migrations, self.shards)
            self._require_usable(session)
            _, self.shards, _, self.identity, access = one(session, FIRST_LOOK)
            if access is not None and access < schema.ACCESS_NUMBER:
                problem = "gives this role the rights and policies of an older program"
                remedy = "run `duly db migrate` as the owner of the schema: it grants access again"
                raise SchemaMismatch(self.name, problem, remedy)
            self.keeps_tenants = access is not None
            self.is_ready = True

    def _require_usable(self, session: Session) -> None:
        has = schema.read_applied(session)
        migrating.require_usable(migrating.compare(self.settings.migrations, has, self.name))


def _begin_in_child() -> None:
    for connections in tuple(_all):
        connections.begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


@contextmanager
def transaction(connection: BoundedConnection, begin: str) -> Iterator[Cursor[Any]]:
    """Begin, and commit at the end of the block; whatever fails undoes all of it.

    Lends what the server has answered so far.
    """
    try:
        yield connection.execute(as_query(begin), prepare=False)
        connection.execute("COMMIT", prepare=False)
    except BaseException:
        # What can't be rolled back any more is rolled back when the connection is closed.
        with suppress(psycopg.Error):
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.execute("ROLLBACK", prepare=False)
        raise


def _last_number(answer: Cursor[Any]) -> int:
    """Return the number that the last of several statements has answered."""
    while answer.nextset():
        pass
    (number,) = answer.fetchone() or (0,)
    return int(number)
