"""A git server of one repository, for scenarios.

`COMMITS` is the history, oldest first; each commit is a mapping of paths to texts. Paths below /private require
`PASSWORD`. The first output line lists the ids of the commits.
"""

import base64
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from dulwich.index import commit_tree
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.refs import Ref
from dulwich.repo import MemoryRepo
from dulwich.server import DictBackend
from dulwich.web import make_server, make_wsgi_chain

PERSON = b"Team <team@example.com>"


def commit(repo: MemoryRepo, files: dict[str, str], parents: list[ObjectID]) -> ObjectID:
    blobs = {path: Blob.from_string(text.encode()) for path, text in files.items()}
    for blob in blobs.values():
        repo.object_store.add_object(blob)
    made = Commit()
    made.tree = commit_tree(repo.object_store, [(path.encode(), blob.id, 0o100644) for path, blob in blobs.items()])
    made.parents = parents
    made.author = made.committer = PERSON
    made.author_time = made.commit_time = made.author_timezone = made.commit_timezone = 0
    made.message = b"The skills as they are now"
    repo.object_store.add_object(made)
    return made.id


def guarded(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    wanted = "Basic " + base64.b64encode(f"git:{os.environ['PASSWORD']}".encode()).decode()

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/private/") and environ.get("HTTP_AUTHORIZATION") != wanted:
            start("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="git"'), ("Content-Length", "0")])
            return []
        return app(environ, start)

    return answer


repo = MemoryRepo()
made: list[ObjectID] = []
for files in json.loads(os.environ["COMMITS"]):
    made.append(commit(repo, files, made[-1:]))
repo.refs[Ref(b"refs/heads/main")] = made[-1]
repo.refs.set_symbolic_ref(Ref(b"HEAD"), Ref(b"refs/heads/main"))
print(json.dumps([each.decode() for each in made]), flush=True)
served: dict[str, Any] = {"/skills.git": repo, "/private/skills.git": repo}
server = make_server("0.0.0.0", int(os.environ["PORT"]), guarded(make_wsgi_chain(DictBackend(served))))
server.serve_forever()
