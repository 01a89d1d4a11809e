// The front page is whole without this script. With it, the address of the other family is shown as well, and Escape
// sends an explanation away.
"use strict";

(() => {
  const WAIT_MS = 5000;

  function says(line, text, address) {
    const label = document.createElement("span");
    label.className = "soft";
    label.textContent = text;
    line.replaceChildren(label);
    if (address) {
      const shown = document.createElement("span");
      shown.className = "mono";
      shown.textContent = address;
      line.append(" ", shown);
    }
  }

  async function askOther(line) {
    const { origin, family } = line.dataset;
    const isOfFamily = (address) => /^[0-9a-f.:]+$/i.test(address) && address.includes(":") === (family === "IPv6");
    try {
      const reply = await fetch(`${origin}/own-address`, {
        cache: "no-store",
        credentials: "omit",
        referrerPolicy: "no-referrer",
        signal: AbortSignal.timeout(WAIT_MS),
      });
      const address = reply.ok ? (await reply.text()).trim() : "";
      if (!isOfFamily(address)) throw new Error("not of that family");
      says(line, `Over ${family}:`, address);
    } catch {
      says(line, `No ${family} here: your browser could not reach this server over it.`);
    }
  }

  const line = document.getElementById("other-address");
  if (line) askOther(line);

  const facts = document.querySelectorAll(".fact");
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const fact of facts) {
      if (fact.matches(":hover, :focus-within")) fact.dataset.dismissed = "";
    }
  });
  for (const fact of facts) {
    for (const leaving of ["mouseleave", "focusout"]) {
      fact.addEventListener(leaving, () => delete fact.dataset.dismissed);
    }
  }
})();
