// Gives every block of code in an element of the class "copyable" its button. Without this script the code is there
// all the same, and is copied by hand.
"use strict";

(() => {
  const SHOWN_FOR_MS = 2000;

  // It has to be in the page before it is filled, or nobody is told.
  const status = document.createElement("p");
  status.className = "visually-hidden";
  status.setAttribute("role", "status");
  document.body.append(status);

  function buttonOf(block, code) {
    const button = block.querySelector(":scope > .copy") ?? document.createElement("button");
    button.type = "button";
    button.classList.add("button", "button-quiet", "button-small", "copy");
    button.textContent = "Copy";
    // There are many on a page: those who only hear them are told what each would copy.
    const what = code.getAttribute("aria-label");
    if (what) button.setAttribute("aria-label", `Copy: ${what}`);
    button.hidden = false;
    block.append(button);
    return button;
  }

  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent.trimEnd());
      return true;
    } catch {
      // Browsers give the clipboard to pages of HTTPS and of this very machine alone; the old way works everywhere.
      const selection = window.getSelection();
      selection.selectAllChildren(code);
      return document.execCommand("copy");
    }
  }

  for (const block of document.querySelectorAll(".copyable")) {
    const code = block.querySelector("pre");
    if (!code) continue;
    const button = buttonOf(block, code);
    let timer;
    button.addEventListener("click", async () => {
      const copied = await copy(code);
      button.textContent = copied ? "Copied" : "Selected";
      status.textContent = copied ? "Copied" : "Selected: press Ctrl and C to copy";
      clearTimeout(timer);
      timer = setTimeout(() => {
        button.textContent = "Copy";
        status.textContent = "";
      }, SHOWN_FOR_MS);
    });
  }
})();
