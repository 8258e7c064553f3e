// Live: when the server says that something changed, the page is fetched anew and compared. What is
// there is changed in place; what is new waits behind a pill. Nothing moves under anybody's hands.
"use strict";
(() => {
  const find = (what, within = document) => within.querySelector(what);
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const pill = find("#pill"), show = find("#pill-show"), toggle = find("#live-switch");
  const root = document.body.dataset.root;
  let source = null, paused = false, looking = false, again = false, fresh = null;

  function isHeld(element) {
    if (element.contains(document.activeElement) && document.activeElement !== document.body) return true;
    if (find("details[open],dialog[open]", element)) return true;
    const selection = getSelection();
    return selection && !selection.isCollapsed && selection.containsNode(element, true);
  }
  const bare = (element) => element.innerHTML.replace(/<span class="rel"[^>]*>[^<]*<\/span>/g, "");

  async function look() {
    if (looking) { again = true; return; }
    looking = true;
    try {
      const answer = await fetch(location.href, { headers: { "Duly-Live": "1" }, redirect: "manual" });
      if (!answer.ok) return;
      compare(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { /* the next pulse tries again */ } finally {
      looking = false;
      if (again) { again = false; look(); }
    }
  }

  function compare(next) {
    for (const now of all("[data-live]")) {
      const then = now.id && next.getElementById(now.id);
      if (!then) continue;
      if (now.tagName === "LINK") { if (now.href !== then.href) now.href = then.href; continue; }
      if (bare(now) === bare(then) || isHeld(now)) continue;
      now.replaceChildren(...document.importNode(then, true).childNodes);
      if (now.id !== "health") { now.classList.remove("changed"); void now.offsetWidth; now.classList.add("changed"); }
    }
    document.title = next.title;
    const list = find("[data-live-list]"), coming = find("[data-live-list]", next);
    if (!list || !coming) return;
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
    list.replaceChildren(...document.importNode(fresh, true).childNodes);
    window.htmx?.process(list);
    fresh = null;
    pill.hidden = true;
    find("#main").focus({ preventScroll: true });
  });

  function start() {
    if (source || paused || document.hidden) return;
    let first = true;
    source = new EventSource(`${root}/live`);
    source.onmessage = () => { if (first) { first = false; return; } look(); };
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(start, 10000); } };
  }
  function stop() { source?.close(); source = null; }
  toggle.addEventListener("click", () => {
    paused = !paused;
    toggle.setAttribute("aria-pressed", String(!paused));
    find("#status").textContent = paused ? "Live updates are paused" : "Live updates go on";
    if (paused) stop(); else { look(); start(); }
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else if (!paused) { look(); start(); } });
  addEventListener("pagehide", stop);
  start();
})();
