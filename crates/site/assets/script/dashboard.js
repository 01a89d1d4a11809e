// The page of a new text takes the address of the key's own page: a reload must not make another key, nor roll it again.
const settled = document.querySelector("[data-settle]");
if (settled) {
  history.replaceState(null, "", settled.dataset.settle);
} else if (location.search.startsWith("?done=")) {
  // What was done is told once, not at every reload.
  history.replaceState(null, "", location.pathname);
}
