// What pages do in the browser: theme, keys, dialogs, the palette, copying, drafts, relative times.
"use strict";
(() => {
  const find = (what, within = document) => within.querySelector(what);
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const say = (text) => { find("#status").textContent = text; };

  // Relative times go on while the page is open.
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const skew = Date.now() - Date.parse(find("#health time")?.dateTime ?? new Date().toISOString());
  function distance(seconds) {
    const parts = [];
    let rest = Math.abs(Math.trunc(seconds));
    for (const [name, size] of units) {
      const number = Math.floor(rest / size);
      rest -= number * size;
      if (number || parts.length) parts.push([number, name]);
    }
    const text = parts.slice(0, 2).filter(([n]) => n).map(([n, name]) => `${n.toLocaleString("en")} ${name}`).join(" ");
    if (!text) return "now";
    return seconds > 0 ? `in ${text}` : `${text} ago`;
  }
  setInterval(() => {
    if (document.hidden) return;
    for (const one of all("time.when")) {
      const text = distance((Date.parse(one.dateTime) - Date.now() + skew) / 1000);
      const rel = find("[data-rel]", one);
      if (rel && rel.textContent !== text) rel.textContent = text;
    }
  }, 5000);

  // Theme: from the system, to the other one, kept.
  function switchTheme() {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
      (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    const next = dark ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("duly-theme", next);
    say(`${next} theme`);
  }

  // Dialogs: focus goes back to where it came from.
  let opener = null;
  function open(dialog) {
    if (dialog.open) return;
    opener = document.activeElement;
    dialog.showModal();
  }
  for (const dialog of all("dialog")) {
    dialog.addEventListener("close", () => { if (opener?.isConnected) opener.focus(); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  // An order that asks first: its form is carried into the dialog.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.dialog) {
      event.preventDefault();
      const dialog = find(`#${CSS.escape(form.dataset.dialog)}`), inner = find("form", dialog);
      inner.reset();
      inner.action = form.action;
      for (const old of all("[data-carried]", inner)) old.remove();
      for (const hidden of all("input[type=hidden]", form)) {
        const copy = hidden.cloneNode();
        copy.dataset.carried = "";
        inner.append(copy);
      }
      find("[data-slot=name]", inner).textContent = form.dataset.name;
      find(".problems", inner).replaceChildren();
      open(dialog);
    } else if (form.closest("dialog")) {
      event.preventDefault();
      send(form);
    } else keep(form);
  });
  async function send(form) {
    keep(form);
    const body = new URLSearchParams(new FormData(form));
    const here = location.pathname + location.search;
    let answer;
    try {
      answer = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true", "HX-Current-URL": here } });
    } catch {
      find(".problems", form).textContent = "The server does not answer; nothing is known to be done. Try again.";
      return;
    }
    const to = answer.headers.get("HX-Redirect");
    if (to) { if (answer.ok) forget(form); location.assign(to); return; }
    // The server escapes what it prints; a document that is parsed runs no script.
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    find(".problems", form).replaceChildren(...parsed.body.childNodes);
  }

  // Drafts: what was typed outlives a session that ends in between.
  const draftOf = (form) => form.dataset.draft ? `duly-draft:${location.pathname}:${form.dataset.draft}` : null;
  function keep(form) {
    const key = draftOf(form);
    if (!key) return;
    const fields = [...new FormData(form)].filter(([name]) => name !== "csrf" && name !== "version");
    sessionStorage.setItem(key, JSON.stringify(fields));
  }
  function forget(form) { const key = draftOf(form); if (key) sessionStorage.removeItem(key); }
  for (const form of all("form[data-draft]")) {
    const kept = sessionStorage.getItem(draftOf(form));
    for (const [name, value] of kept ? JSON.parse(kept) : []) {
      const field = form.elements[name];
      if (field && "value" in field && field.type !== "hidden") field.value = value;
    }
    form.addEventListener("input", () => keep(form));
  }

  // Clicks.
  document.addEventListener("click", async (event) => {
    const target = event.target.closest("[data-open],[data-close],[data-copy],[data-theme-switch],[data-go],[data-press]");
    if (!target) return;
    if (target.dataset.open) open(find(`#${CSS.escape(target.dataset.open)}`));
    else if ("close" in target.dataset) target.closest("dialog").close();
    else if (target.dataset.copy !== undefined) { await navigator.clipboard.writeText(target.dataset.copy); say("Copied"); }
    else if ("themeSwitch" in target.dataset) switchTheme();
    else run(target);
  });

  // The palette.
  const palette = find("#palette"), input = find("#palette-input");
  const options = () => all("#palette-list li").filter((one) => !one.hidden);
  function select(index) {
    const shown = options();
    all("#palette-list li").forEach((one) => one.setAttribute("aria-selected", "false"));
    if (!shown.length) { input.removeAttribute("aria-activedescendant"); return; }
    const chosen = shown[(index + shown.length) % shown.length];
    chosen.setAttribute("aria-selected", "true");
    chosen.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", chosen.id);
  }
  function run(option) {
    palette.close();
    if (option.dataset.go) location.assign(option.dataset.go);
    else if (option.dataset.press) find(option.dataset.press).click();
  }
  input?.addEventListener("input", () => {
    const wanted = input.value.toLowerCase().split(/\s+/);
    for (const one of all("#palette-list li")) one.hidden = !wanted.every((word) => one.textContent.toLowerCase().includes(word));
    select(0);
  });
  input?.addEventListener("keydown", (event) => {
    const at = options().findIndex((one) => one.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); select(at + (event.key === "ArrowDown" ? 1 : -1)); }
    else if (event.key === "Enter" && options()[at]) { event.preventDefault(); run(options()[at]); }
  });

  // Keys: single letters only where nobody types.
  let after = "";
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); open(palette); input.value = ""; input.dispatchEvent(new Event("input")); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
    if (event.target.closest("input,select,textarea,[contenteditable]")) return;
    const going = after === "g";
    after = event.key;
    if (going) { const place = find(`.bar [data-key="${CSS.escape(event.key)}"]`); if (place) { place.click(); return; } }
    if (event.key === "/") { event.preventDefault(); (find(".filters [type=search]") ?? find("#find")).focus(); }
    else if (event.key === "?") open(find("#shortcuts"));
    else if (event.key === "p") find("#live-switch").click();
    else if (event.key === "n" && !find("#pill").hidden) find("#pill-show").click();
  });
})();
