// Any model: a page saved by `regard.view(trace)`, and transformers models in a local folder.
import { html, useRef, useState } from "../lib.js";
import { trace } from "../../views/trace.js";
import { useAnswer, useTyped } from "../hooks.js";
import { Card, Choice, Problem, View } from "../parts.js";
import { t, viewWords } from "../texts.js";

/** @typedef {import("../types.js").RoomProps} RoomProps */
/** @typedef {{id: string, type: string, writes: boolean, bytes: number}} FolderModel */

const TEXT = "The animal did not cross the street because it was too tired.";
const EXAMPLE = `import regard

with regard.record(model) as trace:
    model(**inputs)
regard.view(trace, tokens=tokens).save("attention.html")`;

/**
 * The data in a page of `regard.view`; null if it is another page.
 * @param {string} text
 */
export function readTrace(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  try {
    const data = JSON.parse(page.getElementById("data")?.textContent ?? "");
    const whole = Array.isArray(data.texts) && data.groups.length && data.groups.every((/** @type {any} */ group) => group.layers.length && group.layers.every((/** @type {any} */ layer) => layer.heads.length));
    return whole ? data : null;
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
  const { answer, of, error, busy } = useAnswer("trace", question, { delay: 400 });
  if (!models) return null;
  if (!known.length) return html`<${Card} title=${t("any.folder")}><p>${t("any.allow")} <code>regard studio --allow-folder DIR</code></p><p class="note">${t("any.nofolder")}</p><//>`;
  return html`<${Card} title=${t("any.folder")} busy=${busy} keep=${answer ? keep : undefined} name=${`${model} ${read}`}>
    <${Choice} label=${t("any.folder")} value=${model} onChange=${(/** @type {string} */ name) => change({ model: name, target: null })} options=${models.map((/** @type {FolderModel} */ each) => ({ value: each.id, text: each.id, title: `${each.type}, ${(each.bytes / 1e6).toFixed(1)} MB` }))} />
    <label class="field gap">${t("any.text")}<textarea class="lines" rows="2" maxlength="2000" spellcheck=${false} value=${text} onInput=${(/** @type {any} */ event) => type(event.target.value)}></textarea></label>
    ${writes && html`<label class="field gap">${t("any.target")}<input class="lines" maxlength="2000" spellcheck=${false} value=${target} onInput=${(/** @type {any} */ event) => write(event.target.value)} /></label>`}
    <${Problem} error=${error} />
    ${busy && !answer && html`<p class="note" role="status">${t("any.loading")}</p>`}
    ${answer && html`<div class="gap"><${View} key=${JSON.stringify(of)} draw=${trace} data=${{ data: answer, words: viewWords() }} keep=${keep} /></div>`}
  <//>`;
}

function Saved() {
  const [opened, setOpened] = useState(/** @type {{name: string, count: number, data: any} | null} */ (null));
  const [bad, setBad] = useState(false);
  const [over, setOver] = useState(false);
  const keep = useRef(null);
  const open = async (/** @type {File | undefined} */ file) => {
    setOver(false);
    if (!file) return;
    const data = readTrace(await file.text());
    setBad(!data);
    if (data) setOpened((before) => ({ name: file.name, count: (before?.count ?? 0) + 1, data }));
  };
  return html`<${Card} title=${t("any.open")}>
      <div class=${`nomap${over ? " drop" : ""}`} onDragOver=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        setOver(true);
      }} onDragLeave=${() => setOver(false)} onDrop=${(/** @type {DragEvent} */ event) => {
        event.preventDefault();
        open(event.dataTransfer?.files[0]);
      }}>
        <div><p>${t("any.drop")}</p>
          <p class="gap"><label class="button">${t("any.choose")}<input class="hidden-label" type="file" accept=".html,text/html" onChange=${(/** @type {any} */ event) => open(event.target.files[0])} /></label></p>
        </div>
      </div>
      ${bad && html`<p class="error" role="alert">${t("any.bad")}</p>`}
      <p class="note">${t("any.how")}</p>
      <pre class="equation code" tabindex="0">${EXAMPLE}</pre>
    <//>
    ${opened && html`<${Card} title=${opened.name} file keep=${keep}><${View} key=${opened.count} draw=${trace} data=${{ data: opened.data, words: viewWords() }} keep=${keep} /><//>`}`;
}
