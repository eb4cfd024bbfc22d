"""The tools of a workspace: files, commands, todos and web pages. The workspace itself is a pod of its own."""
