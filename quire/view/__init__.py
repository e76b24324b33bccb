"""What a cluster looks like at one moment: values to show, and one place that gathers them.

    values.py    pure   a bookie, a log with its leader and cursors, a client, the cluster
    users.py     pure   the processes that use ledgers, from the answers of several bookies
    followers.py pure   the subscriptions of followers, likewise
    shapes.py    pure   the same as JSON
    gather.py           asks the metadata store and the bookies through a client

Everything here only reads. All displays share these values, so that no two of them disagree.

May import: the client, healing, logs, ledgers, the metadata store. Not here: how anything is drawn.
"""
