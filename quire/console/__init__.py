"""A console: pages about a cluster, beside the command. It reads only.

    quire console

A sampler looks at the cluster in the background with bounded work a look, and keeps a day of
figures in memory. A page is rendered from the values that the JSON API returns, so both say the
same. Every request needs a token, also on this machine: else every user of the machine would read
with the rights of the process.

Read `ring.py` (a day of figures; pure), `looks.py` (values that the sampler gathers; pure),
`gathering.py` (one look), `sampler.py` (looks, again and again), `views/` (the contents of pages,
from values; pure), `charts.py` (SVG; pure), `words.py` (numbers and times as text; pure),
`records.py` (search and live tail), `access.py` (which requests are answered; pure), `calls.py`
(the table of calls), `openapi.py` (its document; pure), `rendering.py` (templates), `app.py`
(HTTP), `server.py` (the process).

May import: quire.client, quire.connection and their values, quire.healing, quire.view. Never:
storage, nor a call that changes anything.
"""
