// Lists of schedules: choosing rows, and forgetting a draft that was saved.
"use strict";
(() => {
  const find = (what, within = document) => within.querySelector(what);
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const saved = sessionStorage.getItem("duly-editor-saving");
  if (saved && find("#said")) localStorage.removeItem(saved);
  sessionStorage.removeItem("duly-editor-saving");

  if (!find("#chosen-bar")) return;
  // Rows are replaced when something about them changes: who was chosen stays chosen.
  const chosenRows = new Set();
  const boxes = () => all("input[name=chosen]");
  const rowOf = (box) => box.closest("tr").id;
  function count() {
    const chosen = boxes().filter((one) => one.checked).length;
    const words = chosen ? `${chosen} chosen` : "Choose rows";
    // Only what differs is written: the observer below sees every change.
    const place = find("#chosen-count");
    if (place && place.textContent !== words) place.textContent = words;
    const every = find("#choose-all");
    if (every) { every.checked = chosen > 0 && chosen === boxes().length; every.indeterminate = chosen > 0 && !every.checked; }
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "choose-all") for (const one of boxes()) one.checked = event.target.checked;
    if (event.target.id !== "choose-all" && event.target.name !== "chosen") return;
    for (const one of boxes()) { if (one.checked) chosenRows.add(rowOf(one)); else chosenRows.delete(rowOf(one)); }
    count();
  });
  new MutationObserver(() => {
    for (const one of boxes()) one.checked = chosenRows.has(rowOf(one));
    count();
  }).observe(find("#main"), { childList: true, subtree: true });
  count();
})();
