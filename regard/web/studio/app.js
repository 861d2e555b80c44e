// The shell: rooms, address, language, light and dark.
import { html, render, useEffect, useErrorBoundary, useState } from "./lib.js";
import { ROOMS, readAddress, writeAddress } from "./address.js";
import { connect, currentMode, freshModels, keptModels, presentToken } from "./api.js";
import { useCurrent } from "./hooks.js";
import { currentLanguage, LANGUAGES, loadTexts, t } from "./texts.js";
import { Any } from "./rooms/model.js";
import { Ask } from "./rooms/ask.js";
import { Compare } from "./rooms/compare.js";
import { Mechanisms } from "./rooms/mechanisms.js";
import { Point } from "./rooms/point.js";
import { Read } from "./rooms/read.js";
import { Remember } from "./rooms/remember.js";
import { See } from "./rooms/see.js";
import { Translate } from "./rooms/translate.js";

/** @type {Record<string, any>} */
const PAGES = {
  translate: Translate, point: Point, remember: Remember, ask: Ask, read: Read, see: See, mechanisms: Mechanisms,
  compare: Compare, model: Any,
};

/** @param {string} name */
function remembered(name) {
  try {
    return localStorage.getItem(`regard.${name}`);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value */
function remember(name, value) {
  try {
    localStorage.setItem(`regard.${name}`, value);
  } catch {
    // private windows may refuse to store; the choice then lasts until the page is closed
  }
}

const darkQuery = matchMedia("(prefers-color-scheme: dark)");
const motionQuery = matchMedia("(prefers-reduced-motion: reduce)");

function firstTheme() {
  const wanted = new URLSearchParams(location.search).get("theme") ?? remembered("theme");
  if (wanted === "dark" || wanted === "light") return wanted;
  return darkQuery.matches ? "dark" : "light";
}

function firstLanguage() {
  const wanted = new URLSearchParams(location.search).get("lang") ?? remembered("language");
  if (wanted && LANGUAGES.includes(wanted)) return wanted;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** A room with an error boundary: if it fails, the others keep working. @param {{page: any} & import("./types.js").RoomProps} props */
function Room({ page: Page, ...props }) {
  const [error] = useErrorBoundary((problem) => console.warn(problem));
  return error ? html`<p class="error" role="alert">${t("error.room")}</p>` : html`<${Page} ...${props} />`;
}

/** @param {{first: any[], connected: Promise<any[]>}} props initial models, and the server's once it answers */
function Studio({ first, connected }) {
  const [models, setModels] = useState(first);
  const [mode, setMode] = useState(currentMode());
  const [address, setAddress] = useState(readAddress(location.hash));
  const [theme, setTheme] = useState(/** @type {string} */ (document.documentElement.dataset.theme));
  const [language, setLanguage] = useState(currentLanguage());
  const [still, setStill] = useState(motionQuery.matches);

  useEffect(() => {
    const follow = () => setAddress(readAddress(location.hash));
    const calm = () => setStill(motionQuery.matches);
    window.addEventListener("hashchange", follow);
    motionQuery.addEventListener("change", calm);
    return () => {
      window.removeEventListener("hashchange", follow);
      motionQuery.removeEventListener("change", calm);
    };
  }, []);
  useEffect(() => {
    connected.then((found) => {
      setModels(found);
      setMode(currentMode());
    });
  }, []);
  useEffect(() => {
    if (currentMode() === "live") freshModels().then(setModels, () => {});
    scrollTo(0, 0); // each room starts at its top
  }, [address.room]);
  useEffect(() => {
    document.title = `${t(`room.${address.room}`)} · regard studio`;
  }, [address.room, language]);

  /** @param {Record<string, any>} values */
  const change = (values) => {
    const before = readAddress(location.hash);
    const hash = writeAddress(before.room, { ...before.values, ...values });
    history.replaceState(null, "", hash);
    setAddress(readAddress(hash));
  };
  const turn = () => {
    const next = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    remember("theme", next);
    setTheme(next);
  };
  const speak = async () => {
    const next = language === "zh" ? "en" : "zh";
    try {
      await loadTexts(next);
    } catch {
      return; // the server is gone: keep the language
    }
    remember("language", next);
    setLanguage(next);
  };
  const rooms = useCurrent(`${address.room} ${language}`);

  const live = mode === "live";
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault();
      document.getElementById("main")?.focus();
    }}>${t("skip")}</a>
    <header class="top">
      <a class="mark" href="#/translate">regard</a>
      <nav class="rooms" aria-label=${t("rooms")} ref=${rooms}>
        ${ROOMS.map((room) => html`<a key=${room} href=${writeAddress(room, {})}
          aria-current=${room === address.room ? "page" : null}>${t(`room.${room}`)}</a>`)}
      </nav>
      <div class="tools">
        <button class="button" onClick=${speak} lang=${language === "zh" ? "en" : "zh-Hans"}>${language === "zh" ? "English" : "中文"}</button>
        <button class="button" onClick=${turn}>${theme === "dark" ? t("light") : t("dark")}</button>
      </div>
    </header>
    <main class="page" id="main" tabindex="-1">
      <div class="intro"><h1>${t(`room.${address.room}`)}</h1><p>${t(`intro.${address.room}`)}</p></div>
      ${mode === "static" && html`<p class="banner" role="status">${t("static")} <code>regard studio</code></p>`}
      ${mode === "locked" ? html`<p class="error" role="alert">${t("locked")}</p>` : html`<${Room} key=${`${address.room} ${language}`} page=${PAGES[address.room]} values=${address.values} change=${change} models=${models}
        live=${live} still=${still} />`}
    </main>`;
}

/** The token arrives in the hash, once; it is kept in this tab. */
function takeToken() {
  const given = /^#token=(.+)$/.exec(location.hash);
  try {
    if (given) sessionStorage.setItem("regard.token", decodeURIComponent(given[1]));
    presentToken(sessionStorage.getItem("regard.token") ?? "");
  } catch {
    if (given) presentToken(decodeURIComponent(given[1]));
  }
  if (given) history.replaceState(null, "", "#/translate");
}

document.documentElement.dataset.theme = firstTheme();
document.documentElement.toggleAttribute("data-embed", new URLSearchParams(location.search).has("embed"));
takeToken();
// the server serves the page before its models are loaded: start with the examples
const connected = connect();
const kept = new Promise((done) => setTimeout(done, 100)).then(keptModels);
const [first] = await Promise.all([Promise.race([connected, kept]), loadTexts(firstLanguage())]);
const place = /** @type {HTMLElement} */ (document.getElementById("app"));
place.replaceChildren();
render(html`<${Studio} first=${first} connected=${connected} />`, place);
