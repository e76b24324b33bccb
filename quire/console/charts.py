"""Charts as SVG, drawn on the server: text in, text out, so that a test can read them. Pure.

No size or color is written as a style: the policy of the pages forbids styles in them. Sizes are
attributes, colors are classes of the style sheet, so both themes have their own. Every chart has
a label in words, for readers that do not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from quire.console import words
from quire.console.ring import Point

WIDTH, HEIGHT = 600, 160
LEFT, BOTTOM, TOP, RIGHT = 64, 22, 10, 8

SPARK_WIDTH, SPARK_HEIGHT = 120, 28

STEPS: Final = (1.0, 2.0, 5.0, 10.0)

UNITS: Final[dict[str, Callable[[float], str]]] = {
    "bytes": words.size,
    "count": words.number,
    "rate": words.rate,
}


def curve(points: Sequence[Point], unit: str, title: str) -> str:
    """Return a chart of a figure over time, with its scale.

    Args:
        points: the figure, oldest first; times are Unix seconds.
        unit: `bytes`, `count` or `rate`.
        title: the name of the figure.
    """
    say = UNITS[unit]
    if len(points) < 2:
        return _empty(title)
    low, high = _range(points, from_zero=unit == "rate")
    marks = ticks(low, high)
    low, high = min(low, marks[0]), max(high, marks[-1])
    begin, end = points[0].at, points[-1].at

    def x(at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - begin) / ((end - begin) or 1.0)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / ((high - low) or 1.0)

    line = " ".join(f"{x(each.at):.1f},{y(each.value):.1f}" for each in points)
    floor = HEIGHT - BOTTOM
    area = f"{LEFT},{floor} {line} {WIDTH - RIGHT},{floor}"
    parts = [_grid(y(mark), text) for mark, text in zip(marks, tick_texts(marks, say), strict=True)]
    parts.append(f'<polygon class="area" points="{area}"/>')
    parts.append(f'<polyline class="line" points="{line}"/>')
    parts.append(_time(LEFT, "start", begin))
    parts.append(_time(WIDTH - RIGHT, "end", end))
    last = points[-1].value
    label = f"{title}: from {say(points[0].value)} to {say(last)}, at most {say(_high(points))}"
    return _svg("chart", WIDTH, HEIGHT, label, "".join(parts))


def spark(points: Sequence[Point], label: str) -> str:
    """Return a small curve without a scale, to stand in a row."""
    if len(points) < 2:
        return ""
    low, high = min(each.value for each in points), _high(points)
    begin, end = points[0].at, points[-1].at
    line = " ".join(
        f"{SPARK_WIDTH * (each.at - begin) / ((end - begin) or 1.0):.1f},"
        f"{SPARK_HEIGHT - 2 - (SPARK_HEIGHT - 4) * (each.value - low) / ((high - low) or 1.0):.1f}"
        for each in points
    )
    inner = f'<polyline class="line" points="{line}"/>'
    return _svg("spark", SPARK_WIDTH, SPARK_HEIGHT, label, inner)


def bar(share: float, severity: str, label: str) -> str:
    """Return a bar that is full to a share from 0 to 1."""
    width = 100 * min(1.0, max(0.0, share))
    inner = (
        '<rect class="bar-back" width="100" height="8" rx="2"/>'
        f'<rect class="bar-{escape(severity)}" width="{width:.1f}" height="8" rx="2"/>'
    )
    return _svg("bar", 100, 8, label, inner, stretched=True)


def strip(pieces: Sequence[tuple[float, str, str]], label: str) -> str:
    """Return pieces side by side. A piece is its share of the width, its kind and its title."""
    inner, at = [], 0.0
    for share, kind, title in pieces:
        width = 240 * share
        inner.append(
            f'<rect class="piece-{escape(kind)}" x="{at:.1f}" width="{max(0.5, width - 1):.1f}" '
            f'height="14"><title>{escape(title)}</title></rect>'
        )
        at += width
    return _svg("strip", 240, 14, label, "".join(inner), stretched=True)


def ticks(low: float, high: float, count: int = 3) -> list[float]:
    """Return round numbers that span a range, about `count` of them."""
    if high <= low:
        high = low + 1.0
    rough = (high - low) / count
    power = 1.0
    while power * 10 <= rough:
        power *= 10
    while power > rough:
        power /= 10
    step = next(factor * power for factor in STEPS if factor * power >= rough)
    first = step * (low // step)
    marks = [first]
    while marks[-1] < high:
        marks.append(first + step * len(marks))
    return marks


def tick_texts(marks: Sequence[float], say: Callable[[float], str]) -> list[str]:
    """Return the texts of marks. Where two would read alike, they count from the lowest one."""
    texts = list(map(say, marks))
    if len(set(texts)) == len(texts):
        return texts
    return [texts[0], *(f"+{say(mark - marks[0])}" for mark in marks[1:])]


def _range(points: Sequence[Point], *, from_zero: bool) -> tuple[float, float]:
    low, high = min(each.value for each in points), _high(points)
    return (min(0.0, low) if from_zero else low), high


def _high(points: Sequence[Point]) -> float:
    return max(each.value for each in points)


def _grid(y: float, text: str) -> str:
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _time(x: float, anchor: str, at: float) -> str:
    clock = words.moment(1000 * at)[11:16]
    return (
        f'<text class="tick" x="{x}" y="{HEIGHT - 6}" text-anchor="{anchor}">'
        f"{escape(clock)} UTC</text>"
    )


def _empty(title: str) -> str:
    text = "two looks are needed"
    inner = (
        f'<text class="tick" x="{WIDTH // 2}" y="{HEIGHT // 2}" text-anchor="middle">{text}</text>'
    )
    return _svg("chart", WIDTH, HEIGHT, f"{title}: {text}", inner)


def _svg(
    kind: str, width: int, height: int, label: str, inner: str, *, stretched: bool = False
) -> str:
    ratio = ' preserveAspectRatio="none"' if stretched else ""
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}"{ratio} role="img" '
        f'aria-label="{escape(label)}" focusable="false">{inner}</svg>'
    )
