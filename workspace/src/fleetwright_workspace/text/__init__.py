"""Pure text operations: decoding, matching of edits, diffs."""
