// The form that makes a lookup from the page, and the mark in the list of contents. The key leaves this page in one
// header, to this server; it is kept nowhere.
"use strict";

(() => {
  const HEADERS = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"];
  const PATIENCE_MS = 15000;

  const [form, key, scope, fault, demo, status, answer, headers, body] = [
    "form", "key", "scope", "fault", "demo", "status", "answer", "headers", "body",
  ].map((name) => document.getElementById(`try-${name}`));

  function complain(words) {
    fault.textContent = words;
    if (words) {
      key.setAttribute("aria-invalid", "true");
      key.focus();
    } else {
      key.removeAttribute("aria-invalid");
    }
  }

  // What a timestamp means is easier to see than to reckon.
  function explained(name, value) {
    if (name !== "X-RateLimit-Reset") return value;
    const moment = new Date(Number(value) * 1000);
    return Number.isNaN(moment.getTime()) ? value : `${value} (${moment.toUTCString()})`;
  }

  function show(response, text) {
    status.textContent = [response.status, response.statusText].filter(Boolean).join(" ");
    status.dataset.state = response.ok ? "good" : "bad";
    headers.replaceChildren();
    for (const name of HEADERS) {
      const value = response.headers.get(name);
      if (value === null) continue;
      const row = document.createElement("div");
      const term = document.createElement("dt");
      const words = document.createElement("dd");
      term.textContent = name;
      words.textContent = explained(name, value);
      row.append(term, words);
      headers.append(row);
    }
    try {
      body.textContent = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      body.textContent = text;
    }
    answer.hidden = false;
  }

  async function send(path, options) {
    complain("");
    status.textContent = "Sending …";
    delete status.dataset.state;
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const common = { cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer", signal };
      const response = await fetch(path, { ...common, ...options });
      show(response, await response.text());
    } catch {
      answer.hidden = true;
      status.textContent = "The server cannot be reached. Try again in a moment.";
      status.dataset.state = "bad";
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = key.value.trim();
    if (!text) return complain("Paste a key first, or call the demo, which needs none.");
    if (!/^[\x21-\x7e]+$/.test(text)) return complain("This is no key: a key is made of letters, digits and _ alone.");
    const query = scope.value ? `?scope=${scope.value}` : "";
    send(`/api/v1/ip${query}`, { headers: { Authorization: `Bearer ${text}` } });
  });
  demo.addEventListener("click", () => send("/api/v1/ip/demo", {}));
  // Whoever comes back to this page by the browser's buttons finds it without the key.
  window.addEventListener("pagehide", () => form.reset());
  form.hidden = false;

  // The entry of the list of contents that is being read.
  const entries = new Map();
  for (const link of document.querySelectorAll(".contents a")) {
    const heading = document.getElementById(link.hash.slice(1));
    if (heading) entries.set(heading, link);
  }
  const visible = new Set();
  const mark = () => {
    const current = [...entries.keys()].find((heading) => visible.has(heading));
    if (!current) return;
    for (const link of entries.values()) link.removeAttribute("aria-current");
    entries.get(current).setAttribute("aria-current", "true");
  };
  const watch = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) visible[isIntersecting ? "add" : "delete"](target);
    mark();
  }, { rootMargin: "0px 0px -60% 0px" });
  for (const heading of entries.keys()) watch.observe(heading);
})();
