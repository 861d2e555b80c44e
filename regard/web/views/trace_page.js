// The page of `regard.view`; its data is embedded as JSON.

import { followHost } from "./host.js";
import { trace } from "./trace.js";

/** @param {Document} page */
export function start(page) {
  followHost();
  const data = page.getElementById("data"), element = page.getElementById("view");
  if (data && element) return trace(element, { data: JSON.parse(data.textContent ?? "") });
  return undefined;
}
