// Before anything is drawn: the theme that was chosen, and the zone that the browser is in.
"use strict";
(() => {
  const kept = localStorage.getItem("duly-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `duly_zone=${zone};path=/;max-age=31536000;samesite=strict`;
})();
