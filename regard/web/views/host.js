// Detects whether the notebook around a view is light or dark: not every notebook tells the browser.

/** @param {Document} page @returns {"light" | "dark" | undefined} */
export function themeOfHost(page) {
  const { body, documentElement: root } = page;
  const jupyter = body?.dataset.jpThemeLight;
  if (jupyter) return jupyter === "false" ? "dark" : "light";
  const marks = `${body?.className ?? ""} ${root.className} ${root.getAttribute("theme") ?? ""} ${root.dataset.theme ?? ""}`;
  if (/\b(vscode-dark|vscode-high-contrast|dark)\b/.test(marks)) return "dark";
  if (/\b(vscode-light|light)\b/.test(marks)) return "light";
  return undefined;
}

/** In a frame, follow the theme of the notebook around it, and make the frame as high as the page. */
export function followHost() {
  if (parent === window) return;
  document.documentElement.classList.add("framed");
  try {
    const host = parent.document;
    const follow = () => {
      const theme = themeOfHost(host);
      if (theme) document.documentElement.dataset.theme = theme;
    };
    follow();
    const observer = new MutationObserver(follow);
    for (const element of [host.body, host.documentElement]) observer.observe(element, { attributes: true });
    const main = document.querySelector("main"), frame = /** @type {HTMLElement | null} */ (frameElement);
    if (main && frame) {
      new ResizeObserver(() => { frame.style.height = `${Math.ceil(main.getBoundingClientRect().height) + 8}px`; }).observe(main);
    }
  } catch {
    // the parent has another origin: the browser's own setting decides
  }
}
