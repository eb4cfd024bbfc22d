"""The tables of the database of conversations. This module does not import LangGraph, unlike the saver."""

from typing import Final

FILE: Final = "conversations.db"
_FIRST: Final = """
CREATE TABLE IF NOT EXISTS checkpoints (
  thread TEXT NOT NULL, ns TEXT NOT NULL, id TEXT NOT NULL,
  kind TEXT NOT NULL, body BLOB NOT NULL, metadata_kind TEXT NOT NULL, metadata BLOB NOT NULL,
  PRIMARY KEY (thread, ns)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
  thread TEXT NOT NULL, ns TEXT NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL,
  kind TEXT NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (thread, ns, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS writes (
  thread TEXT NOT NULL, ns TEXT NOT NULL, checkpoint TEXT NOT NULL, task TEXT NOT NULL, position INTEGER NOT NULL,
  channel TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (thread, ns, checkpoint, task, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS calls (
  thread TEXT NOT NULL, call TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (thread, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spent (
  owner TEXT NOT NULL, task TEXT NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL, ended REAL,
  PRIMARY KEY (owner, task, position)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spent_ended ON spent (ended) WHERE ended IS NOT NULL;
CREATE TABLE IF NOT EXISTS call_times (key TEXT NOT NULL, at INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS call_times_by_key ON call_times (key, at);
CREATE TABLE IF NOT EXISTS lives (life INTEGER PRIMARY KEY, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (
  life INTEGER NOT NULL, hour INTEGER NOT NULL, model TEXT NOT NULL, purpose TEXT NOT NULL, caller TEXT NOT NULL,
  calls INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL, unpriced INTEGER NOT NULL, picos INTEGER NOT NULL,
  PRIMARY KEY (life, hour, model, purpose, caller)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ledger_by_hour ON ledger (hour);
CREATE TABLE IF NOT EXISTS questions (
  owner TEXT NOT NULL, context TEXT NOT NULL, peer TEXT NOT NULL, task TEXT NOT NULL, asked_in TEXT NOT NULL,
  PRIMARY KEY (owner, context, peer));
CREATE TABLE IF NOT EXISTS views (thread TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS archived (
  thread TEXT NOT NULL, message TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (thread, message)) WITHOUT ROWID;
"""
_USED: Final = """
ALTER TABLE checkpoints ADD COLUMN at REAL NOT NULL DEFAULT 0;
UPDATE checkpoints SET at = unixepoch();
CREATE INDEX checkpoints_by_time ON checkpoints (at, thread);
CREATE TABLE erasures (
  number INTEGER PRIMARY KEY, owner TEXT NOT NULL, context TEXT NOT NULL, asked_by TEXT NOT NULL, begun REAL NOT NULL,
  found TEXT, receipt TEXT);
"""
"""Version 2: the last use of a conversation, and erasures. Existing conversations count as used at the migration."""
_TOLD: Final = """
CREATE TABLE sessions (
  owner TEXT NOT NULL, context TEXT NOT NULL, updated REAL NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (owner, context)) WITHOUT ROWID;
CREATE INDEX sessions_by_time ON sessions (owner, updated);
"""
"""Version 3: the summaries of conversations, which later conversations see."""
_FAILING: Final = """
CREATE INDEX views_by_failures ON views (json_extract(body, '$.failures'));
"""
"""Version 4: an index that counts conversations with failing compactions without reading their views."""
_GRANTED: Final = """
CREATE TABLE grants (
  thread TEXT NOT NULL, tool TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (thread, tool, key)) WITHOUT ROWID;
"""
"""Version 5: grants, the permissions of persons for certain calls of a tool in the rest of a conversation."""
_SIZED: Final = """
CREATE TABLE call_sizes (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
"""
"""Version 6: the sizes of earlier model calls, which tell after a restart whether another call fits into a budget."""
_DELEGATED: Final = """
CREATE TABLE delegated (
  owner TEXT NOT NULL, context TEXT NOT NULL, peer TEXT NOT NULL, task TEXT NOT NULL,
  PRIMARY KEY (owner, context, peer, task));
"""
"""Version 7: tasks of other agents, whose results a conversation will receive."""
_WORKED: Final = """
CREATE TABLE files_read (
  thread TEXT NOT NULL, path TEXT NOT NULL, digest TEXT NOT NULL, mtime_ns INTEGER NOT NULL, number INTEGER NOT NULL,
  at REAL NOT NULL, PRIMARY KEY (thread, path)) WITHOUT ROWID;
CREATE INDEX files_read_by_number ON files_read (thread, number);
CREATE TABLE edits (
  thread TEXT NOT NULL, call TEXT NOT NULL, digest TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (thread, call));
CREATE TABLE todos (thread TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
"""
"""Version 8: the files of a workspace that a conversation has read, its edits and its todos."""
_FORKED: Final = """
CREATE TABLE forks (
  owner TEXT NOT NULL, context TEXT NOT NULL, source TEXT NOT NULL,
  PRIMARY KEY (owner, context, source)) WITHOUT ROWID;
CREATE INDEX forks_by_source ON forks (owner, source);
ALTER TABLE erasures ADD COLUMN forks TEXT;
"""
"""Version 9: the direct sources of forks, and the forks that an erasure includes."""
_TITLED: Final = """
CREATE TABLE titles (thread TEXT NOT NULL PRIMARY KEY, title TEXT NOT NULL) WITHOUT ROWID;
"""
"""Version 10: the titles that callers give to their conversations."""
_COUNTED: Final = """
CREATE TABLE task_outcomes (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);
"""
"""Version 11: the outcomes of the last tasks, which name no caller and no content."""
_TOTALS: Final = """
CREATE TABLE totals (
  number INTEGER PRIMARY KEY, model TEXT NOT NULL, purpose TEXT NOT NULL, caller TEXT NOT NULL,
  calls INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL, unpriced INTEGER NOT NULL, picos INTEGER NOT NULL,
  UNIQUE (model, purpose, caller));
INSERT INTO totals (model, purpose, caller, calls, input, output, cache_read, cache_write, unpriced, picos)
  SELECT model, purpose, caller, sum(calls), sum(input), sum(output), sum(cache_read), sum(cache_write),
    sum(unpriced), sum(picos)
  FROM ledger GROUP BY model, purpose, caller ORDER BY min(life), min(hour), caller;
"""
"""Version 12: the sums of the ledger over all processes and hours, because every start reads them."""
_CALLED: Final = """
CREATE TABLE peer_calls (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, context TEXT NOT NULL, task TEXT NOT NULL,
  peer TEXT NOT NULL, request TEXT NOT NULL, begun REAL NOT NULL, peer_task TEXT NOT NULL, status TEXT NOT NULL,
  result TEXT NOT NULL, ended REAL);
"""
"""Version 13: the last calls with which the agent asked other agents, for administrators."""
SCHEMA: Final = (
    _FIRST,
    _USED,
    _TOLD,
    _FAILING,
    _GRANTED,
    _SIZED,
    _DELEGATED,
    _WORKED,
    _FORKED,
    _TITLED,
    _COUNTED,
    _TOTALS,
    _CALLED,
)
