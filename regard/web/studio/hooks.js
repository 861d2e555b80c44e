// State of the rooms: answers, matrices, typed texts, sizes, drawings to save.
import { useCallback, useEffect, useRef, useState } from "./lib.js";
import { decodeMatrix } from "../views/matrix.js";
import { ApiError, ask, call } from "./api.js";
import { svgDrawing } from "./save.js";

/** @typedef {import("./types.js").Wire} Wire */
/** @typedef {import("./types.js").Matrix} Matrix */
/** @typedef {import("./types.js").Drawing} Drawing */

const LOOK = 1500; // milliseconds between polls of something that grows
const REST = 10_000; // and of something that may start to

/**
 * The answer to a request, sent again when it changes; the old answer stays until the new one arrives.
 * @param {string} path
 * @param {unknown} body null: nothing to ask
 * @param {{file?: string, delay?: number}} [options] `delay` in milliseconds after the last change
 * @returns {{answer: any, of: any, error: ApiError | null, busy: boolean}}
 */
export function useAnswer(path, body, { file, delay = 250 } = {}) {
  const [state, setState] = useState(/** @type {{answer: any, of: any, error: ApiError | null, busy: boolean}} */ ({ answer: null, of: null, error: null, busy: false }));
  const key = body === null ? "" : JSON.stringify(body);
  const first = useRef(true);
  useEffect(() => {
    if (body === null) {
      setState({ answer: null, of: null, error: null, busy: false });
      return undefined;
    }
    const control = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    const timer = setTimeout(() => {
      ask(path, body, { file, signal: control.signal }).then(
        (answer) => !control.signal.aborted && setState({ answer, of: body, error: null, busy: false }),
        (problem) => {
          if (control.signal.aborted) return;
          const error = problem instanceof ApiError ? problem : new ApiError("failed", String(problem?.message ?? problem));
          setState((before) => ({ ...before, error, busy: false }));
        },
      );
    }, first.current ? 0 : delay);
    first.current = false;
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [path, key]);
  return state;
}

/**
 * The server's answers for several addresses, polled while `growing` is true.
 * @param {string[]} paths
 * @param {(answers: any[]) => boolean} growing
 * @returns {{answers: any[], error: ApiError | null}} one answer per readable address
 */
export function useLive(paths, growing) {
  const [state, setState] = useState(/** @type {{answers: any[], error: ApiError | null}} */ ({ answers: [], error: null }));
  useEffect(() => {
    const control = new AbortController();
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const look = async () => {
      const found = await Promise.allSettled(paths.map((path) => call(path, undefined, control.signal)));
      if (control.signal.aborted) return;
      const answers = found.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
      const failed = found.find((each) => each.status === "rejected");
      setState({ answers, error: failed?.reason instanceof ApiError ? failed.reason : null });
      timer = setTimeout(look, growing(answers) ? LOOK : REST);
    };
    look();
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [paths.join(" ")]);
  return state;
}

/**
 * The decoded matrices of an answer; null until ready.
 * @param {(Wire | null | undefined)[] | null} wires
 * @returns {(Matrix | null)[] | null}
 */
export function useMatrices(wires) {
  const [found, setFound] = useState(/** @type {{of: unknown, matrices: (Matrix | null)[]} | null} */ (null));
  const key = wires?.map((wire) => wire?.data).join(" ");
  useEffect(() => {
    let current = true;
    if (wires) {
      Promise.all(wires.map((wire) => (wire ? decodeMatrix(wire) : null))).then((matrices) => {
        if (current) setFound({ of: key, matrices });
      });
    }
    return () => {
      current = false;
    };
  }, [key]);
  return found && wires && found.of === key ? found.matrices : null;
}

/**
 * The current width of an element, in pixels.
 * @param {number} first
 * @returns {[number, (element: HTMLElement | null) => void]}
 */
export function useWidth(first) {
  const [width, setWidth] = useState(first);
  const observer = useRef(/** @type {ResizeObserver | null} */ (null));
  const seen = useRef(/** @type {HTMLElement | null} */ (null));
  const attach = useCallback((/** @type {HTMLElement | null} */ element) => {
    if (element === seen.current) return;
    observer.current?.disconnect();
    seen.current = element;
    if (!element) return;
    setWidth(element.clientWidth);
    observer.current = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.current.observe(element);
  }, []);
  return [width, attach];
}

/**
 * A scrolling list that brings its current entry into view.
 * @param {string} current
 */
export function useCurrent(current) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const box = list.current;
    const entry = /** @type {HTMLElement | null | undefined} */ (box?.querySelector("[aria-current]"));
    if (!box || !entry) return; // not scrollIntoView, which would scroll the page too
    const [inner, outer] = [entry.getBoundingClientRect(), box.getBoundingClientRect()];
    box.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
    if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
  }, [current]);
  return list;
}

/** A reference to an SVG element that can be saved. */
export function useSvgDrawing() {
  const keep = useRef(/** @type {Drawing | null} */ (null));
  /** @param {SVGSVGElement | null} element */
  const attach = (element) => {
    keep.current = element ? svgDrawing(element) : null;
  };
  return { keep, attach };
}

/**
 * A typed value of the address: displayed at once, written to the address with a delay.
 * @param {string} value
 * @param {(value: string) => void} change
 * @returns {[string, (value: string) => void]}
 */
export function useTyped(value, change) {
  const [typed, setTyped] = useState(value);
  const sent = useRef(value);
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value;
      setTyped(value);
    }
  }, [value]);
  const type = (/** @type {string} */ text) => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      sent.current = text;
      change(text);
    }, 300);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return [typed, type];
}
