"""The file of conversations and its tables; apart from the saver, so that opening it imports no loop."""

FILE = "conversations.db"
SCHEMA = """
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
"""
