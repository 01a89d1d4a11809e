// Follows the numbers: the same page is asked for again, and what has changed in it takes the place of what stood there.
// Nothing else is touched, so whatever has the focus, or is folded open, stays as it is. Without this script the browser
// loads the page again by itself.
"use strict";

(() => {
  const EVERY_MS = 2000;

  const stop = document.getElementById("stop");
  const live = [...document.querySelectorAll("[data-live]")];
  let following = true;

  async function follow() {
    if (!following || document.hidden) return;
    try {
      const options = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(EVERY_MS) };
      const response = await fetch("/", { ...options, headers: { Accept: "text/html" } });
      if (!response.ok) throw new Error(response.status);
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      if (!following) return;
      for (const part of live) {
        const now = fresh.getElementById(part.id);
        if (now && now.innerHTML !== part.innerHTML) part.replaceChildren(...now.childNodes);
      }
    } catch {
      document.getElementById("headline").textContent = "It does not answer.";
    }
  }

  // The button is a link to a page that stays as it is; with this script there is no need to go there.
  stop.setAttribute("role", "button");
  stop.addEventListener("click", (event) => {
    event.preventDefault();
    following = !following;
    stop.textContent = following ? "Stop following" : "Follow";
    follow();
  });
  stop.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    stop.click();
  });
  document.addEventListener("visibilitychange", follow);
  setInterval(follow, EVERY_MS);
})();
