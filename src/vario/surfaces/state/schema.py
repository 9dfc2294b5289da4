"""The tables of what survives restarts, the same in SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import TypeDecorator

from vario.surfaces.state.failures import Refused

VERSION = 1
"""Of the tables. It rises with every change that an older vario could not live with."""
LONGEST_KEY = 200
"""Characters of a text that rows are found by: PostgreSQL indexes no more than 2,700 bytes. Of longer ones the head is
kept, and a digest of the whole."""
ACKNOWLEDGED, MUTED = "acknowledged", "muted"
LOCK = 0x766172696F
"""The advisory lock under which PostgreSQL lets one process at a time make the tables."""


class Words(TypeDecorator[str]):
    """Text of any origin: what databases cannot hold (NUL, halves of characters) is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """As it is stored."""
        return None if value is None else _storable(value)


class Key(Words):
    """Text that rows are found by."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """As it is stored and looked for."""
        if value is None:
            return None
        kept = _storable(value)
        if len(kept) <= LONGEST_KEY:
            return kept
        digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{kept[: LONGEST_KEY - len(digest) - 1]}…{digest}"


def _storable(value: str) -> str:
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


TABLES = MetaData()

SCHEMA = Table("vario_schema", TABLES, Column("version", Integer, primary_key=True, autoincrement=False))

RUNS = Table(
    "vario_runs",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("run", Key, nullable=False),
    Column("generation", Integer, nullable=False),
    UniqueConstraint("run", "generation"),
)
"""A row for each run that has stood at a place. All that is said of a run belongs to one of them; the latest counts."""


def _of_run(*, primary: bool = True) -> Column[int]:
    return Column("run_id", Integer, ForeignKey(RUNS.c.id), primary_key=primary, nullable=False, autoincrement=False)


STANDINGS = Table(
    "vario_standings",
    TABLES,
    _of_run(),
    Column("name", Key, primary_key=True),
    Column("severity", Words, nullable=False),
    Column("confidence", Words, nullable=False),
    Column("since", BigInteger),
    Column("step", BigInteger, nullable=False),
)

NOTICES = Table(
    "vario_notices",
    TABLES,
    Column("id", Integer, primary_key=True),
    _of_run(primary=False),
    Column("kind", Words, nullable=False),
    Column("subject", Key, nullable=False),
    Column("step", BigInteger),
    Column("severity", Words, nullable=False),
    Column("confidence", Words, nullable=False),
    Column("title", Words, nullable=False),
    Column("text", Words, nullable=False),
    Column("at", Double, nullable=False),
    Index("vario_notices_by_run", "run_id", "id"),
)

ALERTS = Table(
    "vario_alerts",
    TABLES,
    _of_run(),
    Column("key", Key, primary_key=True),
    Column("subject", Key, nullable=False),
    Column("payload", Words, nullable=False),
    Column("claimed_by", Words),
    Column("claimed_at", Double, nullable=False),
    Column("lease", Double, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("tried_at", Double, nullable=False),
    Column("error", Words, nullable=False),
    Column("sent_at", Double),
)
"""`claimed_by` is empty when a sender has failed; `sent_at` until one has not."""

SILENCES = Table(
    "vario_silences",
    TABLES,
    _of_run(),
    Column("kind", Key, primary_key=True),
    Column("subject", Key, primary_key=True),
    Column("said_by", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("at", Double, nullable=False),
    Column("until", Double),
)

REVIEWS = Table(
    "vario_reviews",
    TABLES,
    Column("id", Integer, primary_key=True),
    _of_run(primary=False),
    Column("step", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    Column("said_by", Words, nullable=False),
    Index("vario_reviews_by_run", "run_id", "id"),
)

MARKS = Table(
    "vario_marks",
    TABLES,
    _of_run(),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("word", Words, nullable=False),
    Column("reward", Double),
    Column("known_at", BigInteger),
)

ACTS = Table(
    "vario_acts",
    TABLES,
    Column("id", Integer, primary_key=True),
    _of_run(primary=False),
    Column("action", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Column("step", BigInteger),
    Column("severity", Words, nullable=False),
    Column("confidence", Words, nullable=False),
    Column("evidence", Words, nullable=False),
    Column("dry", Boolean, nullable=False),
    Column("at", Double, nullable=False),
    Column("outcome", Words, nullable=False),
    Index("vario_acts_by_run", "run_id", "id"),
)
"""`evidence` is a JSON list of sentences."""

FAILURES = Table(
    "vario_failures",
    TABLES,
    _of_run(),
    Column("what", Key, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("first_at", Double, nullable=False),
    Column("last_at", Double, nullable=False),
)


def make(connection: Connection) -> None:
    """Make the tables where they are not there; several processes may do so at once.

    Raises:
        Refused: they were made by a newer vario.
    """
    if not inspect(connection).has_table(SCHEMA.name):
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        TABLES.create_all(connection)
        connection.execute(insert(connection, SCHEMA).values(version=VERSION).on_conflict_do_nothing())
    found = connection.scalar(select(SCHEMA.c.version).order_by(SCHEMA.c.version.desc()).limit(1))
    if found is not None and found > VERSION:
        raise Refused(
            f"it was written by a newer vario (its tables are of version {found}, this vario knows {VERSION}); "
            "update vario, or name another place"
        )


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that may say what happens where the row is there already."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def latest(connection: Connection, run: str) -> int | None:
    """The row of the run that stands at the place now; None where nothing was ever said of it."""
    return connection.scalar(_generations(run).with_only_columns(RUNS.c.id))


def generation(connection: Connection, run: str) -> int:
    """How many runs have stood at the place, this one included: 1 for the first."""
    return connection.scalar(_generations(run).with_only_columns(RUNS.c.generation)) or 1


def ensured(connection: Connection, run: str) -> int:
    """The row of the run that stands at the place now, made where it is not there."""
    found = latest(connection, run)
    if found is None:
        begin(connection, run, 1)
        found = latest(connection, run)
    if found is None:
        raise Refused("the run could not be written down")
    return found


def locked(connection: Connection, run: str) -> int:
    """As `ensured`; until the transaction ends, whoever else asks so for the run waits."""
    row = ensured(connection, run)
    connection.execute(select(RUNS.c.id).where(RUNS.c.id == row).with_for_update(key_share=True))
    return row


def begin(connection: Connection, run: str, number: int) -> None:
    """A run of this number at a place, if it is not there yet."""
    connection.execute(insert(connection, RUNS).values(run=run, generation=number).on_conflict_do_nothing())


def _generations(run: str) -> Select[tuple[int, int]]:
    return select(RUNS.c.id, RUNS.c.generation).where(RUNS.c.run == run).order_by(RUNS.c.generation.desc()).limit(1)
