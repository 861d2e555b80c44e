// The alignments of a report, each with its data in a script element.

import { alignment } from "./alignment.js";
import { followHost } from "./host.js";
import { decodeMatrix } from "./matrix.js";

/** @param {Document} page */
export async function start(page) {
  followHost();
  for (const element of page.querySelectorAll(".alignment")) {
    const data = JSON.parse(element.querySelector("script")?.textContent ?? "{}");
    const matrix = await decodeMatrix(data.matrix);
    alignment(/** @type {HTMLElement} */ (element), { ...data, matrix });
  }
}
