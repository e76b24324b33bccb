"""Files that hold sealed segments after their ledgers are gone: Parquet in a tier.

Read `tier.py` (where files lie; names that are believed), `parquet.py` (bytes of a file),
`checksums.py`, `reader.py` (a segment read from its file). pyarrow is imported here only.

May import: manifest, records. Not here: which segments move (maintenance/offload.py).
"""
