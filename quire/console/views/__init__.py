"""The contents of pages: frozen dataclasses of text and numbers, made from values. Pure.

The JSON API returns them as they are, and templates render them. Nothing here knows HTTP or HTML.

Read `paging.py`, `troubles.py` (findings, and the four questions), then a page each:
`overview.py`, `bookies.py`, `logs.py`, `one_log.py`, `healing.py`, `ledgers.py`, `growth.py`,
`connections.py`.

May import: quire.console.looks, ring, words, and the values of quire that they hold.
"""
