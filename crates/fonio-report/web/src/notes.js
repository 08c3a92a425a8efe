// Shows the definition of a term on hover, focus or tap. Without this script, definitions are title texts.

export function installNotes() {
  const bubble = document.createElement("div");
  bubble.id = "bubble";
  bubble.setAttribute("role", "tooltip");
  bubble.hidden = true;
  document.body.append(bubble);

  const show = (word) => {
    bubble.textContent = word.dataset.note;
    bubble.hidden = false;
    const at = word.getBoundingClientRect();
    const own = bubble.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left), document.documentElement.clientWidth - own.width - 8);
    const above = at.bottom + own.height + 12 > innerHeight;
    bubble.style.left = `${left}px`;
    bubble.style.top = `${above ? at.top - own.height - 6 : at.bottom + 6}px`;
  };
  const hide = () => { bubble.hidden = true; };

  for (const word of document.querySelectorAll("[title].term")) {
    word.dataset.note = word.title;
    word.setAttribute("aria-description", word.title);
    word.removeAttribute("title");
    if (!word.closest("button, a, th")) word.tabIndex = 0;
    word.addEventListener("pointerenter", () => show(word));
    word.addEventListener("pointerleave", hide);
    word.addEventListener("focus", () => show(word));
    word.addEventListener("blur", hide);
  }
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
}
