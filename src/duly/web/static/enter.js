// The code stands behind the # of the address, which is never sent: put it into the form.
"use strict";
(() => {
  const form = document.getElementById("enter");
  const code = decodeURIComponent(location.hash.slice(1));
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    form.elements.secret.value = code;
    form.submit();
    return;
  }
  const root = document.body.dataset.root;
  // A link on another site brings no cookie along, though there is one.
  fetch(`${root}/enter/known`, { redirect: "manual" }).then((answer) => {
    if (answer.status === 204) location.replace(root + form.elements.next.value);
  }, () => {});
})();
