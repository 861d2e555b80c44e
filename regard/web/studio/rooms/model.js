// Any model: a page that `regard.view(trace)` saved, and models of transformers in a folder of this disk.
import { html, useRef, useState } from "../lib.js";
import { trace } from "../../views/trace.js";
import { useAnswer, useTyped } from "../hooks.js";
import { Card, Choice, Problem, View } from "../parts.js";
import { t } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {{id: string, type: string, writes: boolean, bytes: number}} FolderModel */

const TEXT = "The animal did not cross the street because it was too tired.";
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

/** @param {RoomProps} props */
export function Any({ values, change, live }) {
  return html`<div class="stack">
    ${live && html`<${Folder} values=${values} change=${change} />`}
    <${Saved} />
  </div>`;
}

/** @param {Pick<RoomProps, "values" | "change">} props */
function Folder({ values, change }) {
  const { answer: models } = useAnswer("folders", undefined);
  const known = (models ?? []).map((/** @type {FolderModel} */ each) => each.id);
  const model = known.includes(values.model) ? values.model : known[0];
  const writes = Boolean(models?.find((/** @type {FolderModel} */ each) => each.id === model)?.writes);
  const read = values.text ?? TEXT;
  const [text, type] = useTyped(read, (typed) => change({ text: typed || " " }));
  const [target, write] = useTyped(values.target ?? "", (typed) => change({ target: typed }));
  const keep = useRef(null);
  const question = model && read.trim() ? { model, text: read, ...(writes && values.target?.trim() ? { target: values.target } : {}) } : null;
  const { answer, error, busy } = useAnswer("trace", question, { delay: 400 });
  if (!models) return null;
  if (!known.length) return html`<${Card} title=${t("model.folder")}><p>${t("model.allow")} <code>regard studio --allow-folder DIR</code></p><p class="note">${t("model.nofolder")}</p><//>`;
  return html`<${Card} title=${t("model.folder")} busy=${busy} keep=${answer ? keep : undefined} name=${`${model} ${read}`}>
    <${Choice} label=${t("model.folder")} value=${model} onChange=${(/** @type {string} */ name) => change({ model: name, target: null })} options=${models.map((/** @type {FolderModel} */ each) => ({ value: each.id, text: each.id, title: `${each.type}, ${(each.bytes / 1e6).toFixed(1)} MB` }))} />
    <label class="field gap">${t("model.text")}<textarea class="lines" rows="2" maxlength="2000" spellcheck=${false} value=${text} onInput=${(/** @type {any} */ event) => type(event.target.value)}></textarea></label>
    ${writes && html`<label class="field gap">${t("model.target")}<input class="lines" maxlength="2000" spellcheck=${false} value=${target} onInput=${(/** @type {any} */ event) => write(event.target.value)} /></label>`}
    <${Problem} error=${error} />
    ${answer && html`<div class="gap"><${View} key=${JSON.stringify(answer.texts) + model} draw=${trace} data=${{ data: answer }} keep=${keep} /></div>`}
  <//>`;
}

function Saved() {
  const [data, setData] = useState(/** @type {any} */ (null));
  const [name, setName] = useState("");
  const [bad, setBad] = useState(false);
  const [over, setOver] = useState(false);
  const keep = useRef(null);
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
  return html`<${Card} title=${t("model.open")}>
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
    ${data && html`<${Card} title=${name} keep=${keep}><${View} key=${name} draw=${trace} data=${{ data }} keep=${keep} /><//>`}`;
}
