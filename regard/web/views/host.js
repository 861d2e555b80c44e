// Detects whether the notebook around a view is light or dark: not every notebook tells the browser.

/** @param {Document} page @returns {"light" | "dark" | undefined} */
export function themeOfHost(page) {
  const { body, documentElement: root } = page;
  const jupyter = body?.dataset.jpThemeLight;
  if (jupyter) return jupyter === "false" ? "dark" : "light";
  const marks = `${body?.className ?? ""} ${root.className} ${root.getAttribute("theme") ?? ""} ${root.dataset.theme ?? ""}`;
  if (/\bvscode-high-contrast-light\b/.test(marks)) return "light"; // its class list also has vscode-high-contrast
  if (/\b(vscode-dark|vscode-high-contrast|dark)\b/.test(marks)) return "dark";
  if (/\b(vscode-light|light)\b/.test(marks)) return "light";
  return undefined;
}

/** In a frame, follow the theme of the notebook around it, and make the frame as high as the page. */
export function followHost() {
  if (parent === window) return;
  document.documentElement.classList.add("framed");
  try {
    const host = parent.document, frame = /** @type {HTMLElement} */ (frameElement);
    const follow = () => {
      const theme = themeOfHost(host);
      if (!theme) return;
      document.documentElement.dataset.theme = theme;
      frame.style.colorScheme = theme; // if the schemes differ, the frame gets an opaque background
    };
    follow();
    const observer = new MutationObserver(follow);
    for (const element of [host.body, host.documentElement]) observer.observe(element, { attributes: true });
    const main = document.querySelector("main");
    if (main) {
      new ResizeObserver(() => { frame.style.height = `${Math.ceil(main.getBoundingClientRect().height) + 8}px`; }).observe(main);
    }
    if (host.body.className.includes("vscode-")) addEventListener("wheel", (event) => passOn(event, frame));
  } catch {
    // the parent has another origin: the browser's own setting decides
  }
}

/** VS Code scrolls a notebook when its output gets wheel events, but a frame keeps them: pass on those the view does not use.
 * @param {WheelEvent} event @param {HTMLElement} frame */
function passOn(event, frame) {
  const inside = /** @type {Element} */ (event.target).closest(".rg-list, .rg-heads");
  const scrolls = inside && inside.scrollHeight > inside.clientHeight;
  if (!scrolls && !event.defaultPrevented) frame.dispatchEvent(new WheelEvent("wheel", event));
}
