// Re-exports Preact and htm.
import { h, render } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export { h, render };
export {
  useCallback, useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/preact-hooks.js";
/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
