// The schedule editor: a preview while one types, drafts that live in this browser, a zone combobox.
// Without this script the form works the same: every step is a page of the server.
"use strict";
(() => {
  const find = (what, within = document) => within.querySelector(what);
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const say = (text) => { find("#status").textContent = text; };
  const KEPT = "duly-editor:";
  const SAVING = "duly-editor-saving";
  const RECENT = "duly-zones-recent";
  const HOME = "duly-zone-home";
  const PREVIEW_WAIT_MS = 250;

  // The review: once it is saved, the draft has done its work.
  for (const review of all("#review")) {
    review.addEventListener("submit", (event) => {
      if (event.submitter?.hasAttribute("data-save")) sessionStorage.setItem(SAVING, KEPT + review.dataset.editorKey);
    });
  }
  find("[data-focus]")?.focus();

  const form = find("#editor");
  if (!form) return;
  const key = KEPT + form.dataset.editorKey;
  const field = (name) => form.elements[name];

  // Drafts: everything but what belongs to this very page.
  function fields() {
    return [...new FormData(form)].filter(([name]) => !["csrf", "within", "step", "count"].includes(name));
  }
  let first = JSON.stringify(fields());
  const isDirty = () => JSON.stringify(fields()) !== first || form.hasAttribute("data-is-answer");
  function keep() {
    if (isDirty()) localStorage.setItem(key, JSON.stringify(fields()));
    else localStorage.removeItem(key);
  }
  function put(pairs) {
    const values = new Map();
    for (const [name, value] of pairs) values.set(name, [...(values.get(name) ?? []), value]);
    for (const one of all("input[type=checkbox]", form)) one.checked = (values.get(one.name) ?? []).includes(one.value);
    for (const [name, given] of values) {
      const target = field(name);
      if (!target) continue;
      if (target instanceof RadioNodeList || target.type === "radio") {
        for (const one of all(`input[type=radio][name="${CSS.escape(name)}"]`, form)) one.checked = one.value === given[0];
      } else if (target.type !== "checkbox") target.value = given[0];
    }
  }
  function restore() {
    const kept = localStorage.getItem(key);
    if (!kept || form.hasAttribute("data-is-answer") || kept === first) return;
    try { put(JSON.parse(kept)); } catch { localStorage.removeItem(key); return; }
    find("#draft").hidden = false;
    for (const name of ["gap", "fold"]) tell(name);
  }
  for (const one of all("[data-discard]")) {
    one.addEventListener("click", (event) => {
      localStorage.removeItem(key);
      if (event.currentTarget.tagName === "BUTTON") location.assign(location.pathname);
    });
  }

  // What belongs to the chosen way of saying it, and nothing else, is shown.
  function arrange() {
    const mode = field("mode").value;
    for (const part of all("[data-mode-part]", form)) part.hidden = part.dataset.modePart !== mode;
    for (const part of all("[data-when]", form)) part.hidden = part.dataset.when !== field("repeat").value;
    for (const part of all("[data-when-overlap]", form)) part.hidden = field("overlap").value !== "serialize";
    for (const part of all("[data-unless-stored]", form)) part.hidden = mode === "stored";
    for (const one of all("[data-mode]", form)) one.setAttribute("aria-pressed", String(one.dataset.mode === mode));
  }
  function tell(name) {
    const told = find(`[data-told="${name}"]`, form);
    const chosen = find(`input[name="${name}"]:checked`, form);
    if (told && chosen) told.textContent = find("b", chosen.closest("label")).textContent.toLowerCase();
  }

  // The preview, by the server's own engine; only what was touched is complained about.
  const touched = new Set();
  let isZoneKnown = true, waiting = null, asked = 0, count = "3";
  function later() { clearTimeout(waiting); waiting = setTimeout(preview, PREVIEW_WAIT_MS); }
  async function preview() {
    const mine = ++asked;
    const body = new URLSearchParams(new FormData(form));
    body.delete("step");
    body.set("count", count);
    let answer;
    try {
      answer = await fetch(form.dataset.preview, { method: "POST", body, redirect: "manual", headers: { "HX-Request": "true" } });
    } catch { return; }
    if (mine !== asked) return;
    if (answer.status === 401 || answer.type === "opaqueredirect") {
      say("Your session has ended. The draft is kept: sign in again to go on.");
      return;
    }
    if (!answer.ok) return;
    const part = new DOMParser().parseFromString(await answer.text(), "text/html");
    find("#preview-body").replaceChildren(...find("[data-preview]", part).childNodes);
    const zone = find("[data-zone-shown]", part)?.dataset.zoneShown;
    isZoneKnown = Boolean(zone);
    find("#zone-now").textContent = zone || "Search by city, country, name or abbreviation.";
    complain(new Map(all("[data-problem]", part).map((one) => [one.dataset.problem, one])));
    inLocale(find("#preview-body"));
    banner();
    offerHome();
  }
  function complain(problems) {
    for (const place of all("[data-error]", form)) {
      const name = place.dataset.error, wrong = touched.has(name) ? problems.get(name) : null;
      const input = form.querySelector(`#f-${CSS.escape(name)}`);
      if (!touched.has(name) && !place.hidden) { if (problems.has(name)) continue; }
      place.hidden = !wrong;
      input?.toggleAttribute("aria-invalid", false);
      if (wrong) input?.setAttribute("aria-invalid", "true"); else input?.removeAttribute("aria-invalid");
      find("[data-words]", place).textContent = wrong ? wrong.textContent : "";
      const fix = find("[data-fix]", place);
      fix.hidden = !wrong?.dataset.value;
      fix.dataset.value = wrong?.dataset.value ?? "";
      fix.textContent = `Use ${fix.dataset.value}`;
    }
  }

  // Switching how it is said: the same rule, or a clear word that it can't be.
  function switchTo(mode) {
    const shown = find("[data-description]", form), note = find("#mode-note");
    const refuse = (text) => { note.textContent = text; say(text); };
    note.textContent = "";
    if (mode === field("mode").value) return;
    if (mode === "simple") {
      if (shown && !shown.dataset.simple) { refuse("This rule can't be shown as a sentence. It stays as it is written."); return; }
      if (shown) put(Object.entries(JSON.parse(shown.dataset.simple)).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => [name, one])));
    } else if (shown?.dataset.text) field("text").value = shown.dataset.text;
    else if (field("mode").value === "stored") { refuse("This rule can't be written as one text. It stays as it is stored."); return; }
    field("mode").value = mode;
    changed();
    find(mode === "simple" ? "#f-repeat" : "#f-text").focus();
  }

  function changed() { arrange(); keep(); later(); }
  form.addEventListener("input", (event) => {
    if (event.target.name === "preset") fill(event.target.value);
    if (event.target.name === "gap" || event.target.name === "fold") tell(event.target.name);
    if (event.target.name === "task") parameters();
    // Half a zone is none: it is looked at once it is chosen, or left.
    if (event.target !== zone) { changed(); return; }
    isZoneKnown = zone.value === before;
    if (!isZoneKnown) find("#zone-now").textContent = "Search by city, country, name or abbreviation.";
    banner();
    keep();
  });
  form.addEventListener("focusout", (event) => {
    if (!event.target.name || event.target.type === "hidden" || event.target.tagName === "BUTTON") return;
    // Who leaves a field that they never filled in has not made a mistake yet, but in the zone.
    if (event.target.value || event.target.name === "tz") touched.add(event.target.name);
    later();
  });
  form.addEventListener("click", (event) => {
    const target = event.target.closest("[data-fix],[data-mode],[data-more],[data-keep],[data-use]");
    if (!target) return;
    event.preventDefault();
    if (target.dataset.fix) {
      const input = field(target.dataset.fix);
      input.value = target.dataset.value;
      touched.add(target.dataset.fix);
      input.focus();
      changed();
    } else if (target.dataset.mode) switchTo(target.dataset.mode);
    else if ("more" in target.dataset) { count = "5"; preview(); }
    else if ("keep" in target.dataset) { kept = field("tz").value; banner(); field("tz").focus(); }
    else { choose(browserZone); }
  });
  form.addEventListener("submit", () => keep());

  // Kinds of work fill in policies; whoever chooses otherwise afterwards is right.
  function fill(name) {
    const fills = JSON.parse(find("#presets").dataset.fills)[name];
    if (fills) put(Object.entries(fills));
  }

  // A field for each argument that the task takes; the JSON stays what is sent.
  function parameters() {
    const place = find("#parameters"), box = field("arguments");
    const takes = JSON.parse(find("#f-task").selectedOptions[0]?.dataset.takes ?? "null");
    place.replaceChildren();
    const isSimple = takes?.length && takes.every((one) => one.kind !== "json");
    let given = {};
    try { given = JSON.parse(box.value || "{}"); } catch { place.hidden = true; find("#arguments-field").hidden = false; return; }
    const isKnown = isSimple && Object.keys(given).every((name) => takes.some((one) => one.name === name));
    place.hidden = !isKnown;
    find("#arguments-field").hidden = Boolean(isKnown) || (takes !== null && !takes.length && box.value.trim() === "{}");
    if (!isKnown) return;
    for (const one of takes) place.append(parameter(one, given, box));
  }
  function parameter(one, given, box) {
    const wrap = document.createElement("div"), label = document.createElement("label");
    const input = document.createElement(one.kind === "boolean" ? "select" : "input"), hint = document.createElement("p");
    wrap.className = "field";
    hint.className = "hint";
    input.id = `p-${one.name}`;
    input.autocomplete = "off";
    label.htmlFor = input.id;
    label.textContent = one.name;
    hint.textContent = one.is_required ? one.words : `${one.words}; empty: ${one.default}`;
    if (one.kind === "boolean") for (const text of one.is_required ? ["true", "false"] : ["", "true", "false"]) input.add(new Option(text === "" ? "as it is unless given" : text, text));
    else input.inputMode = one.kind === "string" ? "text" : "decimal";
    if (one.name in given) input.value = one.kind === "string" ? given[one.name] : JSON.stringify(given[one.name]);
    input.addEventListener("input", () => {
      let now = {};
      try { now = JSON.parse(box.value || "{}"); } catch { /* begun anew */ }
      if (input.value === "" && !(one.is_required && one.kind === "string")) delete now[one.name];
      else now[one.name] = read(one, input.value);
      box.value = JSON.stringify(now, null, 2);
      touched.add("arguments");
    });
    wrap.append(label, input, hint);
    return wrap;
  }
  function read(one, text) {
    if (one.kind === "string") return text;
    if (one.kind === "boolean") return text === "true";
    const number = Number(text);
    return text.trim() !== "" && Number.isFinite(number) ? number : text;
  }

  // The zone: an editable combobox with a list (ARIA 1.2). The input keeps the focus.
  const zone = field("tz"), list = find("#zone-list");
  let typing = null, before = zone.value, searches = 0;
  const options = () => all("[role=option]", list);
  const recent = () => { try { return JSON.parse(localStorage.getItem(RECENT) ?? "[]"); } catch { return []; } };
  function mark(index) {
    const shown = options();
    shown.forEach((one) => one.setAttribute("aria-selected", "false"));
    if (!shown.length) { zone.removeAttribute("aria-activedescendant"); return; }
    const chosen = shown[(index + shown.length) % shown.length];
    chosen.setAttribute("aria-selected", "true");
    chosen.scrollIntoView({ block: "nearest" });
    zone.setAttribute("aria-activedescendant", chosen.id);
  }
  async function search(text) {
    const mine = ++searches;
    const query = new URLSearchParams({ search: text });
    for (const one of recent()) query.append("recent", one);
    let answer;
    try { answer = await fetch(`${form.dataset.zones}?${query}`, { redirect: "manual" }); } catch { return; }
    if (!answer.ok || mine !== searches) return;
    list.replaceChildren(...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes);
    list.hidden = false;
    zone.setAttribute("aria-expanded", "true");
    const found = options().length;
    say(found ? `${found} time zones` : "No time zone");
    if (text && found) mark(0); else zone.removeAttribute("aria-activedescendant");
  }
  function shut() {
    clearTimeout(typing);
    searches += 1;
    list.hidden = true;
    zone.setAttribute("aria-expanded", "false");
    zone.removeAttribute("aria-activedescendant");
  }
  function choose(key_) {
    zone.value = before = key_;
    localStorage.setItem(RECENT, JSON.stringify([key_, ...recent().filter((one) => one !== key_)].slice(0, 5)));
    shut();
    touched.add("tz");
    changed();
  }
  zone.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => search(zone.value.trim()), 150); });
  zone.addEventListener("click", () => { if (list.hidden) { zone.select(); search(""); } });
  zone.addEventListener("keydown", (event) => {
    const at = options().findIndex((one) => one.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) search(zone.value === before ? "" : zone.value.trim());
      else mark(at + (event.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1));
    } else if (event.key === "Enter" && !list.hidden && options()[at]) {
      event.preventDefault();
      choose(options()[at].dataset.zone);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      event.stopPropagation();
      zone.value = before;
      shut();
      later();
    }
  });
  list.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) choose(option.dataset.zone);
  });
  zone.addEventListener("blur", shut);

  // The zone that somebody always begins with comes before the browser's.
  const home = find("#zone-home");
  function offerHome() {
    const chosen = zone.value;
    home.hidden = !chosen.includes("/") || chosen === (localStorage.getItem(HOME) ?? browserZone) || zone.hasAttribute("aria-invalid");
    home.textContent = `Always begin with ${city(chosen)}`;
  }
  home.addEventListener("click", () => {
    localStorage.setItem(HOME, zone.value);
    say(`New schedules begin in ${zone.value}`);
    zone.focus();
    offerHome();
  });

  // Another zone than the browser's is never silent.
  const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  let kept = null;
  const city = (name) => name.split("/").pop().replaceAll("_", " ");
  function banner() {
    const place = find("#zone-banner"), chosen = zone.value;
    const isOther = Boolean(browserZone) && chosen !== browserZone && chosen !== kept && isZoneKnown && !zone.hasAttribute("aria-invalid") && field("mode").value !== "stored";
    place.hidden = !isOther;
    if (!isOther) return;
    find("span", place).textContent = `Your browser is in ${browserZone}, this schedule in ${chosen}.`;
    find("[data-keep]", place).textContent = `Keep ${city(chosen)}`;
    find("[data-use]", place).textContent = `Use ${city(browserZone)}`;
  }
  const shownFirst = zone.value;
  if (key === `${KEPT}new` && !form.hasAttribute("data-is-answer")) {
    // On the very first page the server has not been told yet where the browser is.
    const own = form.dataset.mine ? zone.value : browserZone || zone.value;
    zone.value = before = localStorage.getItem(HOME) ?? own;
    first = JSON.stringify(fields());
  }

  // The week begins, and the clock counts, as the browser's language has it.
  const language = navigator.language || "en";
  const is12 = new Intl.DateTimeFormat(language, { hour: "numeric" }).resolvedOptions().hour12;
  function inLocale(within) {
    if (!is12) return;
    for (const one of all("[data-hour]", within)) {
      const [hour, minute] = one.textContent.split(":").map(Number);
      if (Number.isNaN(minute)) continue;
      one.textContent = `${hour % 12 || 12}:${String(minute).padStart(2, "0")} ${hour < 12 ? "AM" : "PM"}`;
    }
  }
  function firstDay() {
    try {
      const locale = new Intl.Locale(language);
      return (locale.getWeekInfo?.() ?? locale.weekInfo)?.firstDay ?? 1;
    } catch { return 1; }
  }
  const week = find("#f-days"), days = all(".day", week);
  for (let moved = 1; moved < firstDay(); moved += 1) week.append(days[moved - 1]);

  // Esc leaves; it asks only whoever has something to lose.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || find("dialog[open]")) return;
    event.preventDefault();  // else the same key would close the dialog again
    if (isDirty()) find("#leave").showModal(); else location.assign(form.dataset.leave);
  });

  restore();
  arrange();
  parameters();
  inLocale(document);
  banner();
  offerHome();
  if (JSON.stringify(fields()) !== first || zone.value !== shownFirst) preview();
})();
