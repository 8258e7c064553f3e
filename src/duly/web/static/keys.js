// The keyboard: single letters where nobody types, and the palette of everything one can go to.
"use strict";
(() => {
  const find = (what) => document.querySelector(what);
  const all = (what) => [...document.querySelectorAll(what)];
  const palette = find("#palette");
  const input = find("#palette-input");

  const options = () => all("#palette-list li").filter((one) => !one.hidden);
  function select(index) {
    const shown = options();
    for (const one of all("#palette-list li")) one.setAttribute("aria-selected", "false");
    if (!shown.length) {
      input.removeAttribute("aria-activedescendant");
      return;
    }
    const chosen = shown[(index + shown.length) % shown.length];
    chosen.setAttribute("aria-selected", "true");
    chosen.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", chosen.id);
  }
  function narrow() {
    const wanted = input.value.toLowerCase().split(/\s+/);
    for (const one of all("#palette-list li")) {
      one.hidden = !wanted.every((word) => one.textContent.toLowerCase().includes(word));
    }
    select(0);
  }
  function run(option) {
    palette.close();
    if (option.dataset.go) location.assign(option.dataset.go);
    else find(option.dataset.press).click();
  }
  input.addEventListener("input", narrow);
  input.addEventListener("keydown", (event) => {
    const at = options().findIndex((one) => one.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      select(at + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && options()[at]) {
      event.preventDefault();
      run(options()[at]);
    }
  });
  document.addEventListener("click", (event) => {
    const option = event.target.closest("#palette-list li");
    if (option) run(option);
    if (event.target.closest("[data-open=palette]")) {
      input.value = "";
      narrow();
    }
  });

  const ACTIONS = {
    "/": () => {
      const field = find(".filters [type=search]") ?? find("#find");
      const folded = field.closest(".folded");
      if (folded) folded.open = true;
      else if (!field.checkVisibility()) find("#menu").showPopover();
      field.focus();
    },
    "?": () => find("[data-open=shortcuts]").click(),
    p: () => find("#live-switch").click(),
    n: () => {
      if (!find("#pill").hidden) find("#pill-show").click();
    },
  };
  let before = "";
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      find("[data-open=palette]").click();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
    if (event.target.closest("input,select,textarea,[contenteditable]")) return;
    const place = before === "g" && find(`.bar [data-key="${CSS.escape(event.key)}"]`);
    before = event.key;
    if (place) {
      place.click();
    } else if (Object.hasOwn(ACTIONS, event.key)) {
      event.preventDefault();
      ACTIONS[event.key]();
    }
  });
})();
