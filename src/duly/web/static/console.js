// What pages do in the browser: times that go on, theme, dialogs and orders, drafts, copying.
"use strict";
(() => {
  const find = (what, within = document) => within.querySelector(what);
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const say = (text) => {
    find("#status").textContent = text;
  };

  // Times go on while the page is open, by the store's clock: `#now` is what it said when the page
  // was made, and the browser's own clock only counts from there.
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let behind = 0;
  let told = "";
  function setClock() {
    const now = find("#now");
    if (!now || now.dateTime === told) return;
    told = now.dateTime;
    behind = Date.now() - Date.parse(told);
  }
  function distance(seconds) {
    const parts = [];
    let rest = Math.abs(Math.trunc(seconds));
    for (const [name, size] of UNITS) {
      const number = Math.floor(rest / size);
      rest -= number * size;
      if (number || parts.length) parts.push([number, name]);
    }
    const shown = parts.slice(0, 2).filter(([number]) => number);
    const text = shown.map(([number, name]) => `${number.toLocaleString("en")} ${name}`).join(" ");
    if (!text) return "now";
    return seconds > 0 ? `in ${text}` : `${text} ago`;
  }
  function tick() {
    if (document.hidden) return;
    setClock();
    const now = Date.now() - behind;
    for (const one of all(".clock [data-clock]")) {
      const shown = new Date(now).toLocaleTimeString("en-GB", { timeZone: one.dataset.clock });
      if (one.textContent !== shown) one.textContent = shown;
    }
    for (const one of all("time.when")) {
      const rel = find("[data-rel]", one);
      const text = distance((Date.parse(one.dateTime) - now) / 1000);
      if (rel && rel.textContent !== text) rel.textContent = text;
    }
  }
  setClock();
  setInterval(tick, 1000);

  // Theme: from the system, to the other one, kept.
  function switchTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("duly-theme", root.dataset.theme);
    say(`${root.dataset.theme} theme`);
  }

  // Dialogs: focus goes back to where it came from.
  let opener = null;
  function open(dialog) {
    if (dialog.open) return;
    opener = document.activeElement;
    dialog.showModal();
  }
  for (const dialog of all("dialog")) {
    dialog.addEventListener("close", () => {
      // What was in the menu of a narrow screen is gone with it: the focus goes to its button.
      const back = opener?.checkVisibility() ? opener : find(".open-menu");
      if (opener?.isConnected) back.focus();
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }

  // An order that asks first: its form is carried into the dialog.
  function ask(form, submitter) {
    const dialog = find(`#${CSS.escape(form.dataset.dialog)}`);
    const inner = find("form", dialog);
    inner.reset();
    inner.action = submitter?.getAttribute("formaction") ?? form.action;
    for (const old of all("[data-carried]", inner)) old.remove();
    for (const hidden of all("input[type=hidden]", form)) {
      const copy = hidden.cloneNode();
      copy.dataset.carried = "";
      inner.append(copy);
    }
    find("[data-slot=name]", inner).textContent = form.dataset.name;
    find(".problems", inner).replaceChildren();
    open(dialog);
  }
  // What is wrong with an order is said in its form, above its buttons; what was typed stays.
  function addProblems(form) {
    const made = document.createElement("div");
    made.className = "problems";
    made.setAttribute("role", "alert");
    form.insertBefore(made, form.lastElementChild);
    return made;
  }
  async function send(form) {
    keep(form);
    const body = new URLSearchParams(new FormData(form));
    const here = location.pathname + location.search;
    const headers = { "HX-Request": "true", "HX-Current-URL": here };
    const problems = find(".problems", form) ?? addProblems(form);
    const button = find("button:not([type=button])", form);
    let answer;
    button.disabled = true;
    try {
      answer = await fetch(form.action, { method: "POST", body, headers });
    } catch {
      problems.textContent = "The server does not answer; nothing is known to be done. Try again.";
      return;
    } finally {
      button.disabled = false;
    }
    const to = answer.headers.get("HX-Redirect");
    if (to) {
      if (answer.ok) forget(form);
      location.assign(to);
      return;
    }
    // The server escapes what it prints; a document that is parsed runs no script.
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = find("#main", parsed);
    if (!main) {
      problems.replaceChildren(...parsed.body.childNodes);
      return;
    }
    // A page, and no part of one: the same form, beside what somebody else has changed meanwhile.
    find("#main").replaceChildren(...main.childNodes);
    find("#main [data-focus]")?.focus();
  }
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.dialog) {
      event.preventDefault();
      ask(form, event.submitter);
    } else if (form.method === "post" && form.matches("dialog form, form[data-inline]")) {
      event.preventDefault();
      send(form);
    } else keep(form);
  });

  // What somebody must say and has not: told where it is asked, in our own words.
  document.addEventListener("invalid", (event) => {
    const group = event.target.closest("[data-missing]");
    if (!group) return;
    event.preventDefault();
    if (!find(".error", group)) {
      const said = document.createElement("p");
      said.className = "error";
      said.setAttribute("role", "alert");
      said.textContent = group.dataset.missing;
      group.append(said);
    }
    if (group === find("[data-missing]:has(.error)", group.closest("form"))) event.target.focus();
  }, true);
  document.addEventListener("change", (event) => {
    const group = event.target.closest("[data-missing]");
    if (group) find(".error", group)?.remove();
  });

  // Drafts: what was typed outlives a session that ends in between. What somebody says they know
  // does not: that is said anew.
  function draftOf(form) {
    return form.dataset.draft ? `duly-draft:${location.pathname}:${form.dataset.draft}` : null;
  }
  function keep(form) {
    const key = draftOf(form);
    if (!key) return;
    const left = ["csrf", "within", "version", ...(form.dataset.undrafted ?? "").split(" ")];
    const fields = [...new FormData(form)].filter(([name]) => !left.includes(name));
    sessionStorage.setItem(key, JSON.stringify(fields));
  }
  function forget(form) {
    const key = draftOf(form);
    if (key) sessionStorage.removeItem(key);
  }
  for (const form of all("form[data-draft]")) {
    const kept = sessionStorage.getItem(draftOf(form));
    for (const [name, value] of kept ? JSON.parse(kept) : []) {
      const field = form.elements[name];
      if (field && "value" in field && field.type !== "hidden") field.value = value;
    }
    form.addEventListener("input", () => keep(form));
  }

  // Boxes of a list: how many are chosen is said where it is used.
  function countBoxes() {
    const count = all("[data-choose]:checked").length;
    for (const one of all("[data-chosen]")) one.textContent = count ? `${count} chosen` : "none chosen";
    for (const one of all("[data-needs-chosen]")) one.disabled = count === 0;
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-choose-all]")) {
      for (const one of all("[data-choose]")) one.checked = event.target.checked;
    }
    if (event.target.matches("[data-choose],[data-choose-all]")) countBoxes();
  });

  // Clicks.
  async function copy(target) {
    try {
      await navigator.clipboard.writeText(target.dataset.copy);
      say("Copied");
    } catch {
      say("The browser does not allow copying here");
    }
  }
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-open],[data-close],[data-copy],[data-theme-switch]");
    if (!target) return;
    if (target.dataset.open) open(find(`#${CSS.escape(target.dataset.open)}`));
    else if ("close" in target.dataset) target.closest("dialog").close();
    else if (target.dataset.copy !== undefined) copy(target);
    else switchTheme();
  });
  document.addEventListener("htmx:afterSwap", countBoxes);
  // A part of a page that came after it: its room is filled, or stays with the way to it.
  for (const name of ["htmx:afterSwap", "htmx:responseError", "htmx:sendError"]) {
    document.addEventListener(name, (event) => {
      event.target.closest?.(".part")?.removeAttribute("aria-busy");
    });
  }
  countBoxes();
})();
