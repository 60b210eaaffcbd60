"""What Alembic runs: all migrations in the transaction that farm.store.migrate has begun."""

from alembic import context

from farm.store.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
