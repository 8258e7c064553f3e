// Live: when the server says that something changed, the page is fetched anew and compared. What is
// there is changed in place; what is new waits behind a pill. Nothing moves under anybody's hands.
"use strict";
(() => {
  const find = (what, within = document) => within.querySelector(what);
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const pill = find("#pill");
  const show = find("#pill-show");
  const toggle = find("#live-switch");
  const root = document.body.dataset.root;
  const WAIT_MS = 10_000;
  let pulse = document.body.dataset.pulse;
  let source = null;
  let isPaused = false;
  let isLooking = false;
  let isAgain = false;
  let fresh = null;

  // Somebody holds what they have the focus in, have opened, chosen or selected.
  function isHeld(element) {
    const active = document.activeElement;
    if (active !== document.body && element.contains(active)) return true;
    if (find("details[open],dialog[open],input:checked", element)) return true;
    const selection = getSelection();
    return selection && !selection.isCollapsed && selection.containsNode(element, true);
  }
  // Relative times and the clock go on by themselves.
  const GOING_ON = /<span class="rel"[^>]*>[^<]*<\/span>|<time[^>]*data-clock[^>]*>[^<]*<\/time>/g;
  const bare = (element) => element.innerHTML.replace(GOING_ON, "").replace(/\s+/g, " ");

  async function read(address, headers) {
    const answer = await fetch(address, { headers, redirect: "manual" });
    return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  }
  // What came after the page is asked for by itself; the page has only the room for it.
  async function readPart(element) {
    const headers = { "Duly-Live": "1", "HX-Request": "true" };
    return [element.id, await read(element.dataset.part, headers).catch(() => null)];
  }

  async function look() {
    if (isLooking) {
      isAgain = true;
      return;
    }
    isLooking = true;
    try {
      const parts = all("[data-part]:not([aria-busy])").map(readPart);
      const next = await read(location.href, { "Duly-Live": "1" });
      if (next) {
        for (const [id, part] of await Promise.all(parts)) {
          if (part) next.getElementById(id)?.replaceChildren(...part.body.childNodes);
        }
        compare(next);
      }
    } catch {
      // The next pulse tries again.
    } finally {
      isLooking = false;
      if (isAgain) {
        isAgain = false;
        look();
      }
    }
  }

  function replace(now, then) {
    now.replaceChildren(...document.importNode(then, true).childNodes);
    if ("calm" in now.dataset) return; // drawings, and what stands on every page
    now.classList.remove("changed");
    void now.offsetWidth;
    now.classList.add("changed");
  }
  function compare(next) {
    for (const now of all("[data-live]")) {
      const then = now.id && next.getElementById(now.id);
      if (!then) continue;
      if (now.tagName === "LINK") {
        if (now.href !== then.href) now.href = then.href;
      } else if (bare(now) !== bare(then) && !isHeld(now)) replace(now, then);
    }
    document.title = next.title;
    const list = find("[data-live-list]");
    const coming = find("[data-live-list]", next);
    if (list && coming) countNew(list, coming);
  }
  function countNew(list, coming) {
    const known = new Set(all("tr[id]", list).map((one) => one.id));
    const count = all("tr[id]", coming).filter((one) => !known.has(one.id)).length;
    fresh = count ? coming : null;
    pill.hidden = !count;
    if (count && show.textContent !== `${count} new – show`) {
      show.textContent = `${count} new – show`;
      find("#status").textContent = `${count} new`;
    }
  }

  show.addEventListener("click", () => {
    if (!fresh) return;
    const list = find("[data-live-list]");
    const chosen = new Set(all("[data-choose]:checked", list).map((one) => one.value));
    list.replaceChildren(...document.importNode(fresh, true).childNodes);
    for (const one of all("[data-choose]", list)) one.checked = chosen.has(one.value);
    window.htmx?.process(list);
    fresh = null;
    pill.hidden = true;
    find("#main").focus({ preventScroll: true });
  });

  function start() {
    if (source || isPaused || document.hidden) return;
    source = new EventSource(`${root}/live`);
    source.onmessage = (event) => {
      if (event.data !== pulse) look();
      pulse = event.data;
    };
    source.onerror = () => {
      if (source?.readyState !== EventSource.CLOSED) return;
      source = null;
      setTimeout(start, WAIT_MS);
    };
  }
  function stop() {
    source?.close();
    source = null;
  }
  toggle.addEventListener("click", () => {
    isPaused = !isPaused;
    toggle.setAttribute("aria-pressed", String(!isPaused));
    find("#status").textContent = isPaused ? "Live updates are paused" : "Live updates go on";
    if (isPaused) {
      stop();
    } else {
      look();
      start();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stop();
    } else if (!isPaused) {
      look();
      start();
    }
  });
  addEventListener("pagehide", stop);
  start();
})();
