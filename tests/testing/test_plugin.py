"""The fixtures, as the tests of an application use them: in a run of pytest of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["quire.testing.plugin"]'

BLOCKING = """
    def test_write(quire_sync_client, quire_log):
        with quire_sync_client.open_log(quire_log) as log:
            log.append(b"a")
        assert [each.payload for each in quire_sync_client.read_log(quire_log)] == [b"a"]

    def test_names_differ(quire_cluster, quire_log, quire_sync_client):
        quire_cluster.kill(0)
        with quire_sync_client.open_log(quire_log) as log:
            log.append(b"b")
        assert [each.payload for each in quire_sync_client.read_log(quire_log)] == [b"b"]

    def test_healed(quire_cluster, quire_sync_client, quire_log):
        with quire_sync_client.open_log(quire_log) as log:
            log.append(b"c")
"""

ASYNCHRONOUS = """
    import pytest

    @pytest.mark.{marker}
    async def test_write(quire_client, quire_cluster, quire_log):
        log = await quire_client.open_log(quire_log)
        quire_cluster.kill(0)
        await log.append(b"a")
        await log.close()
        assert [each.payload async for each in await quire_client.read_log(quire_log)] == [b"a"]
"""

BACKEND = """
    import pytest

    @pytest.fixture
    def anyio_backend():
        return "asyncio"
"""


@pytest.mark.parametrize("cluster", ["memory", "processes"])
def test_blocking_tests_run_on_both_clusters(pytester: pytest.Pytester, cluster: str) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(BLOCKING)
    result = pytester.runpytest_subprocess("-p", "no:asyncio", f"--quire-cluster={cluster}")
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize("marker", ["asyncio", "anyio"])
def test_asynchronous_tests_run_with_either_plugin(pytester: pytest.Pytester, marker: str) -> None:
    pytester.makeconftest(CONFTEST)
    others = BACKEND if marker == "anyio" else ""
    pytester.makepyfile(others + ASYNCHRONOUS.format(marker=marker))
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_the_number_of_bookies_is_an_option(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("def test(quire_cluster): assert quire_cluster.bookies == 5")
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "--quire-bookies=5")
    result.assert_outcomes(passed=1)
