// Saves a drawing as PNG, SVG, or a self-contained page.

/** @typedef {import("./types.js").Drawing} Drawing */

const COPIED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "paint-order",
  "font-family", "font-size", "font-weight", "text-anchor", "image-rendering",
];

const MARGIN = 8;
const UNSAVED = ".chip, .note, .hidden-label"; // controls and notes

/**
 * @param {Blob} blob
 * @param {string} name
 */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * A file name without special characters.
 * @param {string} text
 */
export function fileName(text) {
  return text.normalize("NFC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "regard";
}

/**
 * An SVG element as a standalone drawing, with its styles inlined.
 * @param {SVGSVGElement} element
 * @returns {Drawing}
 */
export function svgDrawing(element) {
  const toSVG = () => {
    const copy = /** @type {SVGSVGElement} */ (element.cloneNode(true));
    const from = [element, ...element.querySelectorAll("*")];
    const to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((each, i) => {
      const style = getComputedStyle(each);
      for (const name of COPIED) {
        const value = style.getPropertyValue(name);
        if (value) to[i].setAttribute(name, value);
      }
      for (const name of ["class", "style", "tabindex", "role"]) to[i].removeAttribute(name);
    });
    const box = element.getBoundingClientRect();
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", String(Math.round(box.width)));
    copy.setAttribute("height", String(Math.round(box.height)));
    if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${Math.round(box.width)} ${Math.round(box.height)}`);
    return new XMLSerializer().serializeToString(copy);
  };
  return { toSVG, toPNG: () => rasterise(toSVG(), getComputedStyle(element).getPropertyValue("--card").trim()) };
}

/**
 * A part of the page as one drawing: its drawings, pictures, bars and words in place.
 * @param {Element} element
 * @returns {Drawing}
 */
export function partDrawing(element) {
  const toSVG = () => {
    const box = element.getBoundingClientRect();
    const parts = [element, ...element.querySelectorAll("*")].filter((each) => !each.closest(UNSAVED) && !each.parentElement?.closest("svg")).map((each) => {
      const place = each.getBoundingClientRect();
      const at = `x="${place.left - box.left}" y="${place.top - box.top}"`;
      const size = `width="${place.width}" height="${place.height}"`;
      const ground = getComputedStyle(each).backgroundColor;
      const behind = /, 0\)$/.test(ground) ? "" : `<rect ${at} ${size} fill="${ground}" rx="4"/>`;
      if (each instanceof SVGSVGElement) return behind + svgDrawing(each).toSVG().replace("<svg", `<svg ${at}`);
      if (each instanceof HTMLImageElement) return `<image ${at} ${size} href="${escapeText(each.src)}" image-rendering="pixelated"/>`;
      return behind + wordsIn(each, box);
    });
    const [width, height] = [box.width + 2 * MARGIN, box.height + 2 * MARGIN];
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${-MARGIN} ${-MARGIN} ${width} ${height}">${parts.join("")}</svg>`;
  };
  return { toSVG, toPNG: () => rasterise(toSVG(), getComputedStyle(element).getPropertyValue("--card").trim()) };
}

/** The words directly in an element, with their positions. @param {Element} element @param {DOMRect} box */
function wordsIn(element, box) {
  const { color, fontFamily, fontSize, fontWeight } = getComputedStyle(element);
  const range = document.createRange();
  return [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).flatMap((node) =>
    [...(node.textContent ?? "").matchAll(/[\u2e80-\uffef]|[^\s\u2e80-\uffef]+/gu)].map(({ 0: word, index }) => {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const place = range.getBoundingClientRect();
      return `<text x="${place.left - box.left}" y="${place.top - box.top + place.height * 0.78}" fill="${color}" font-family="${escapeText(fontFamily)}" font-size="${fontSize}" font-weight="${fontWeight}">${escapeText(word)}</text>`;
    })).join("");
}

/**
 * @param {string} svg
 * @param {string} ground
 * @returns {Promise<Blob>}
 */
export async function rasterise(svg, ground) {
  const picture = new Image();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  picture.src = address;
  await picture.decode();
  URL.revokeObjectURL(address);
  const canvas = document.createElement("canvas");
  canvas.width = 2 * picture.width;
  canvas.height = 2 * picture.height;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = ground || "#ffffff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no picture"))), "image/png"));
}

/**
 * A self-contained page with the drawing and its description.
 * @param {{title: string, note: string, svg: string, address: string, dark: boolean, lang: string}} parts
 */
export function savedPage({ title, note, svg, address, dark, lang }) {
  const [ground, ink, soft] = dark ? ["#1a1f28", "#e9edf3", "#98a2b3"] : ["#ffffff", "#1c2430", "#667085"];
  return `<!doctype html>
<html lang="${escapeText(lang)}"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeText(title)}</title>
<style>body{margin:40px auto;max-width:1100px;padding:0 20px;background:${ground};color:${ink};font:16px/1.5 system-ui,sans-serif}svg{max-width:100%;height:auto}p{color:${soft}}</style>
<h1>${escapeText(title)}</h1>
${note ? `<p>${escapeText(note)}</p>\n` : ""}<figure>${svg}</figure>
<p>regard studio: <a href="${escapeText(address)}">${escapeText(address)}</a></p>
</html>
`;
}

/** @param {string} text */
export function escapeText(text) {
  return text.replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign] ?? sign);
}
