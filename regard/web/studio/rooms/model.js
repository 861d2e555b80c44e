// Any model: a page that `regard.view(trace)` saved, opened here.
import { html, useRef, useState } from "../lib.js";
import { trace } from "../../views/trace.js";
import { Card, View } from "../parts.js";
import { t } from "../texts.js";

const EXAMPLE = `import regard

with regard.record(model) as trace:
    model(**inputs)
regard.view(trace, tokens=tokens).save("attention.html")`;

/**
 * What a page of `regard.view` holds; null: it is no such page.
 * @param {string} text
 */
export function readTrace(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  try {
    const data = JSON.parse(page.getElementById("data")?.textContent ?? "");
    return Array.isArray(data.groups) && data.groups.length && Array.isArray(data.texts) ? data : null;
  } catch {
    return null;
  }
}

export function Any() {
  const [data, setData] = useState(/** @type {any} */ (null));
  const [name, setName] = useState("");
  const [bad, setBad] = useState(false);
  const [over, setOver] = useState(false);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const open = async (/** @type {File | undefined} */ file) => {
    setOver(false);
    if (!file) return;
    const found = readTrace(await file.text());
    setBad(!found);
    if (found) {
      setData(found);
      setName(file.name);
    }
  };
  return html`<div class="stack">
    <${Card} title=${t("model.open")}>
      <div class=${`nomap${over ? " drop" : ""}`} onDragOver=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        setOver(true);
      }} onDragLeave=${() => setOver(false)} onDrop=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        open(event.dataTransfer?.files[0]);
      }}>
        <div><p>${t("model.drop")}</p>
          <p class="gap"><label class="button">${t("model.choose")}<input class="hidden-label" ref=${input} type="file" accept=".html,text/html" onChange=${(/** @type {any} */ event) => open(event.target.files[0])} /></label></p>
        </div>
      </div>
      ${bad && html`<p class="error" role="alert">${t("model.bad")}</p>`}
      <p class="note">${t("model.how")}</p>
      <pre class="equation code" tabindex="0">${EXAMPLE}</pre>
    <//>
    ${data && html`<${Card} title=${name}><${View} key=${name} draw=${trace} data=${{ data }} /><//>`}
  </div>`;
}
