/* Two things that HTML alone cannot do: look again every few seconds, and follow a log. Pages work without. */
"use strict";

(function refreshing() {
  let next = null;
  function again() {
    const live = document.getElementById("live");
    if (!live || !live.dataset.refresh) return;
    clearTimeout(next);
    next = setTimeout(function () {
      // A focused link would vanish under its user, and a hidden page needs no news.
      const busy = document.hidden || live.contains(document.activeElement);
      if (busy || !window.htmx) again();
      else htmx.trigger(live, "refresh");
    }, 1000 * Number(live.dataset.refresh));
  }
  document.addEventListener("DOMContentLoaded", again);
  document.addEventListener("htmx:afterSettle", again);
  document.addEventListener("htmx:responseError", again);
  document.addEventListener("htmx:sendError", function () {
    const age = document.querySelector(".banner .age");
    if (age) age.textContent = "the console does not answer";
    again();
  });
})();

(function tailing() {
  document.addEventListener("DOMContentLoaded", function () {
    const button = document.getElementById("tail-button");
    if (!button) return;
    const rows = document.getElementById("tail-rows");
    const state = document.getElementById("tail-state");
    const most = Number(rows.dataset.rows);
    let source = null;

    function stop(why) {
      if (source) source.close();
      source = null;
      button.setAttribute("aria-pressed", "false");
      button.textContent = "Follow";
      state.textContent = why;
    }

    function show(event) {
      rows.insertAdjacentHTML("afterbegin", event.data);
      rows.firstElementChild.classList.add("fresh");
      while (rows.children.length > most) rows.lastElementChild.remove();
    }

    function start() {
      source = new EventSource("/tail?log=" + encodeURIComponent(button.dataset.log));
      button.setAttribute("aria-pressed", "true");
      button.textContent = "Pause";
      state.textContent = "connecting…";
      source.onopen = function () { state.textContent = "following; the newest record is first"; };
      source.onerror = function () { if (source) state.textContent = "the connection broke; trying again"; };
      source.addEventListener("record", show);
      source.addEventListener("end", function (event) { stop(event.data); });
    }

    button.addEventListener("click", function () { if (source) stop("paused"); else start(); });
    window.addEventListener("pagehide", function () { if (source) source.close(); });
  });
})();
