// A heat map of any size: weights as cells, with words beside them. Cells smaller than a pixel are max-pooled.

import { largest as largestOf, pyramid, strongest } from "./matrix.js";
import { colourOf, levelOf, onThemeChange, themeOf } from "./palette.js";
import { addStyle, escapeXml, make, shown } from "./style.js";

/** @typedef {import("./matrix.js").Matrix} Matrix */
/**
 * @typedef {object} HeatmapOptions
 * @property {Matrix} matrix
 * @property {string[]} [rows] words of the rows; default: positions
 * @property {string[]} [columns]
 * @property {(row: number, column: number) => void} [onHover] -1, -1 when the pointer leaves
 * @property {(row: number) => void} [onSelect] a click, or Enter
 * @property {string} [label] description for screen readers
 * @property {number} [selected] a row that stays marked
 * @property {[number, number][]} [marks] framed cells: [row, column]
 * @property {number} [largest] the end of the scale; default: the largest weight
 * @property {number} [least] the start of the scale, for matrices that are not weights
 * @property {number} [maxHeight] of the cells, in pixels
 * @property {(row: number, column: number) => string} [say] replaces the sentence below
 * @property {Partial<typeof WORDS>} [words] the view's texts, in another language
 */

const WORDS = {
  zoomIn: "Zoom in", zoomOut: "Zoom out", whole: "Show all", looked: "looked at", nothing: "nothing", point: "Point at a cell.",
  keys: "Arrow keys move, + and − zoom, Enter selects.", heatmap: "heat map", rows: "rows", columns: "columns",
};
const CELL = 44; // largest cell, in pixels
const READABLE = 14; // smallest cell with a word beside it
const FONT = 13;
const TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000];

/** @param {HTMLElement} element @param {HeatmapOptions} given */
export function heatmap(element, given) {
  let options = { ...given };
  let words = { ...WORDS, ...options.words };
  addStyle(element);
  const view = make("div", "rg-view", element);
  const stack = make("div", "rg-stack", view);
  const base = make("canvas", "", stack), cells = make("canvas", "rg-cells", stack);
  const below = make("div", "rg-below", view);
  const say = make("output", "rg-say", below);
  const legend = make("span", "rg-legend", below);
  const zoomer = make("span", "rg-zoom", below);
  base.setAttribute("aria-hidden", "true");
  legend.setAttribute("aria-hidden", "true");
  cells.tabIndex = 0;
  cells.setAttribute("role", "img");
  say.setAttribute("aria-live", "polite");
  const buttons = [
    button("−", words.zoomOut, () => zoomBy(1 / 1.6)), button("+", words.zoomIn, () => zoomBy(1.6)),
    button("⤢", words.whole, showAll),
  ];
  const basePen = /** @type {CanvasRenderingContext2D} */ (base.getContext("2d"));
  const cellsPen = /** @type {CanvasRenderingContext2D} */ (cells.getContext("2d"));

  let theme = themeOf(element);
  let scaleEnd = 1;
  let levels = pyramid({ rows: 0, columns: 0, values: new Uint8Array(0) });
  let hot = { row: -1, column: -1 };
  const place = { left: 0, top: 0, width: 1, height: 1, cellWidth: 1, cellHeight: 1, slanted: false, total: 1 };
  const at = { zoom: 1, x: 0, y: 0 }; // x, y: the cell in the top left corner
  /** @type {ImageData | undefined} */
  let image;
  let waiting = 0;

  /** @param {string} text @param {string} name @param {() => void} act */
  function button(text, name, act) {
    const made = make("button", "", zoomer);
    made.type = "button";
    made.textContent = text;
    made.title = name;
    made.setAttribute("aria-label", name);
    made.addEventListener("click", act);
    return made;
  }

  function readMatrix() {
    const { rows, columns, values } = options.matrix;
    scaleEnd = options.largest ?? largestOf(options.matrix);
    const bytes = new Uint8Array(values.length);
    const least = options.least ?? 0;
    for (let i = 0; i < values.length; i++) bytes[i] = levelOf(values[i] - least, scaleEnd - least);
    levels = pyramid({ rows, columns, values: bytes });
    const label = options.label ? `${options.label}: ` : "";
    cells.setAttribute("aria-label", `${label}${words.heatmap}, ${rows} ${words.rows}, ${columns} ${words.columns}. ${words.keys}`);
  }

  /** @param {number} value */
  function told(value) {
    return shown(value, options.least === undefined ? scaleEnd : Infinity);
  }

  /** @param {"rows" | "columns"} axis @param {number} index */
  function name(axis, index) {
    return options[axis]?.[index]?.trim() || String(index);
  }

  /** @param {"rows" | "columns"} axis the widest word, in pixels */
  function widest(axis) {
    basePen.font = font(true);
    const count = options.matrix[axis], step = Math.max(1, Math.floor(count / 400));
    let width = 0;
    for (let i = 0; i < count; i += step) width = Math.max(width, basePen.measureText(name(axis, i)).width);
    return width;
  }

  function font(bold = false) {
    return `${bold ? "700 " : ""}${FONT}px ${getComputedStyle(view).fontFamily || "sans-serif"}`;
  }

  function layOut() {
    const { rows, columns } = options.matrix;
    const total = Math.max(120, element.clientWidth);
    const screenful = parent === window ? innerHeight : screen.availHeight; // a frame grows with its content
    const maxHeight = options.maxHeight ?? Math.max(280, Math.min(720, 0.75 * screenful));
    const left = Math.ceil(Math.min(widest("rows"), 120, 0.3 * total)) + 10;
    const wide = widest("columns"), right = options.columns ? 0.6 * basePen.measureText(name("columns", columns - 1)).width : 12;
    const free = total - left - 2 - Math.min(right, 60);
    const most = { x: Math.min(CELL, free / columns), y: Math.min(CELL, maxHeight / rows) };
    const square = Math.min(most.x, most.y); // unless only one axis has room for words
    const cellWidth = most.x < READABLE ? square : Math.max(READABLE, square);
    const cellHeight = most.y < READABLE ? square : Math.max(READABLE, square);
    const slanted = wide + 8 > cellWidth;
    const top = slanted ? Math.ceil(Math.min(wide, 110) * 0.8) + 18 : FONT + 12;
    Object.assign(place, {
      left, top, cellWidth, cellHeight, slanted, total, width: Math.max(1, columns * cellWidth), height: Math.max(1, rows * cellHeight),
    });
    const ratio = devicePixelRatio || 1;
    below.style.maxWidth = `${Math.max(320, left + place.width)}px`;
    stack.style.height = `${top + place.height + 2}px`;
    resize(base, total, top + place.height + 2, ratio);
    resize(cells, place.width, place.height, ratio);
    cells.style.left = `${left}px`;
    cells.style.top = `${top}px`;
    image = cellsPen.createImageData(cells.width, cells.height);
    clamp();
  }

  /** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height @param {number} ratio */
  function resize(canvas, width, height, ratio) {
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }

  function maxZoom() {
    const cell = Math.min(place.cellWidth, place.cellHeight);
    return cell >= READABLE ? 1 : 28 / cell;
  }

  function clamp() {
    at.zoom = Math.min(maxZoom(), Math.max(1, at.zoom));
    const { rows, columns } = options.matrix;
    at.x = Math.min(columns - columns / at.zoom, Math.max(0, at.x));
    at.y = Math.min(rows - rows / at.zoom, Math.max(0, at.y));
    const zoomable = maxZoom() > 1.05;
    zoomer.style.display = zoomable ? "" : "none";
    buttons[0].disabled = buttons[2].disabled = at.zoom <= 1;
    buttons[1].disabled = at.zoom >= maxZoom();
    cells.style.cursor = at.zoom > 1 ? "grab" : "crosshair";
    cells.style.touchAction = at.zoom > 1 ? "none" : "pan-y";
  }

  function draw() {
    waiting = 0;
    drawCells();
    drawLabels();
  }

  function schedule() {
    if (!waiting) waiting = requestAnimationFrame(draw);
  }

  function drawCells() {
    if (!image) return;
    const { width, height } = cells;
    const pixels = new Uint32Array(image.data.buffer);
    const { rows, columns } = options.matrix;
    const ratio = devicePixelRatio || 1;
    const wide = place.cellWidth * at.zoom * ratio, high = place.cellHeight * at.zoom * ratio;
    const i = Math.max(0, Math.ceil(-Math.log2(high))), j = Math.max(0, Math.ceil(-Math.log2(wide)));
    const level = levels.at(i, j), values = level.values;
    const columnOf = new Int32Array(width);
    for (let x = 0; x < width; x++) columnOf[x] = Math.min(columns - 1, Math.floor((x + 0.5) / wide + at.x)) >> j;
    const row = hot.row >= 0 ? hot.row : options.selected ?? -1;
    const markedRow = row >= 0 ? row >> i : -1, markedColumn = row < 0 && hot.column >= 0 ? hot.column >> j : -1;
    let before = -1;
    for (let y = 0; y < height; y++) {
      const r = Math.min(rows - 1, Math.floor((y + 0.5) / high + at.y)) >> i, to = y * width;
      if (r === before) {
        pixels.copyWithin(to, to - width, to);
        continue;
      }
      before = r;
      const from = r * level.columns, scale = r === markedRow ? theme.marked : theme.scale;
      for (let x = 0; x < width; x++) pixels[to + x] = scale[values[from + columnOf[x]]];
      if (markedColumn >= 0) {
        for (let x = 0; x < width; x++) if (columnOf[x] === markedColumn) pixels[to + x] = theme.marked[values[from + markedColumn]];
      }
    }
    cellsPen.putImageData(image, 0, 0);
    if (markedRow >= 0 && hot.column >= 0) frame(markedRow << i, hot.column >> j << j, 2, theme.colours.ink, Math.max(high * 2 ** i, 3), Math.max(wide * 2 ** j, 3));
    if (wide > 4) for (const [r, c] of options.marks ?? []) frame(r, c, 2, theme.colours.gold, high, wide);
  }

  /** @param {number} row @param {number} column @param {number} width @param {string} colour @param {number} high @param {number} wide */
  function frame(row, column, width, colour, high, wide) {
    const ratio = devicePixelRatio || 1;
    const x = (column - at.x) * place.cellWidth * at.zoom * ratio, y = (row - at.y) * place.cellHeight * at.zoom * ratio;
    const line = width * ratio;
    cellsPen.strokeStyle = colour;
    cellsPen.lineWidth = line;
    cellsPen.strokeRect(x + line / 2, y + line / 2, Math.max(1, wide - line), Math.max(1, high - line));
  }

  /** Visible labels: the word of each cell, or round positions if there is no room.
   * @param {"rows" | "columns"} axis @returns {{index: number, text: string, middle: number}[]} */
  function labels(axis) {
    const isRow = axis === "rows", count = options.matrix[axis];
    const size = (isRow ? place.cellHeight : place.cellWidth) * at.zoom, start = isRow ? at.y : at.x;
    const room = isRow ? READABLE - 1 : place.slanted ? READABLE : 0;
    const space = options[axis] ? room : isRow ? 18 : 40;
    const all = size >= space, step = all ? 1 : TICKS.find((tick) => tick * size >= (isRow ? 22 : 44)) ?? count;
    const first = Math.max(0, Math.floor(start)), last = Math.min(count - 1, Math.floor(start + (isRow ? place.height : place.width) / size));
    const found = [];
    for (let index = Math.ceil(first / step) * step; index <= last; index += step) {
      const middle = (index + 0.5 - start) * size;
      if (middle < 0 || middle > (isRow ? place.height : place.width)) continue;
      found.push({ index, text: all ? name(axis, index) : String(index), middle });
    }
    const chosen = isRow ? (hot.row >= 0 ? hot.row : options.selected ?? -1) : hot.column;
    if (!all && chosen >= 0) { // the word at the pointer replaces positions near it
      const middle = (chosen + 0.5 - start) * size, near = isRow ? 18 : place.slanted ? 22 : 60;
      if (middle >= 0 && middle <= (isRow ? place.height : place.width)) {
        return [...found.filter((label) => Math.abs(label.middle - middle) > near), { index: chosen, text: name(axis, chosen), middle }];
      }
    }
    return found;
  }

  function drawLabels() {
    const ratio = devicePixelRatio || 1, pen = basePen;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, base.width, base.height);
    pen.textBaseline = "middle";
    const row = hot.row >= 0 ? hot.row : options.selected ?? -1;
    pen.textAlign = "right";
    for (const { index, text, middle } of labels("rows")) {
      pen.fillStyle = index === row ? theme.colours.strong : theme.colours.ink;
      pen.font = font(index === row);
      pen.fillText(cut(text, place.left - 10), place.left - 8, place.top + middle);
    }
    for (const { index, text, middle } of labels("columns")) {
      pen.fillStyle = index === hot.column ? theme.colours.strong : theme.colours.ink;
      pen.font = font(index === hot.column);
      pen.save();
      pen.translate(place.left + middle, place.top - 9);
      if (place.slanted && (options.columns || place.cellWidth * at.zoom < READABLE) && /\D/.test(text)) {
        pen.rotate(-Math.PI / 3.4);
        pen.textAlign = "left";
        pen.fillText(cut(text, 110), 0, 0);
      } else {
        pen.textAlign = "center";
        pen.fillText(text, 0, 0);
      }
      pen.restore();
    }
  }

  /** @param {string} text @param {number} width */
  function cut(text, width) {
    if (basePen.measureText(text).width <= width) return text;
    let kept = text;
    while (kept.length > 1 && basePen.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
    return `${kept}…`;
  }

  function drawLegend() {
    legend.replaceChildren();
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    canvas.width = 144;
    canvas.height = 1;
    const strip = pen?.createImageData(144, 1);
    if (pen && strip) {
      for (let x = 0; x < 144; x++) strip.data.set([...colourOf(x / 143, theme.dark), 255], 4 * x);
      pen.putImageData(strip, 0, 0);
    }
    legend.append(options.least === undefined ? "0" : told(options.least), canvas, told(scaleEnd));
  }

  /** @param {number} row @param {number} column */
  function sentence(row, column) {
    if (options.say) return options.say(row, column);
    if (row < 0) return words.point;
    const best = strongest(options.matrix, row, 3);
    const list = best.map(({ index, weight }) => `${numbered("columns", index)} ${told(weight)}`).join(", ");
    const position = options.rows && options.matrix.rows > 40 ? ` (${row})` : "";
    const start = `“${name("rows", row)}”${position} ${words.looked} ${list || words.nothing}`;
    if (column < 0 || best.some(({ index }) => index === column)) return start;
    return `${start}; ${numbered("columns", column)} ${told(options.matrix.values[row * options.matrix.columns + column])}`;
  }

  /** @param {"rows" | "columns"} axis @param {number} index */
  function numbered(axis, index) {
    return options[axis] && options.matrix[axis] > 40 ? `${name(axis, index)} (${index})` : name(axis, index);
  }

  /** @param {number} row @param {number} column @param {boolean} [tell] */
  function point(row, column, tell = true) {
    if (row === hot.row && column === hot.column) return;
    hot = { row, column };
    say.textContent = sentence(row >= 0 ? row : options.selected ?? -1, column);
    if (tell) options.onHover?.(row, column);
    schedule();
  }

  /** @param {number} factor @param {number} [x] fixed point of the zoom, in pixels @param {number} [y] */
  function zoomBy(factor, x = place.width / 2, y = place.height / 2) {
    const before = at.zoom;
    at.zoom = Math.min(maxZoom(), Math.max(1, at.zoom * factor));
    at.x += x / place.cellWidth * (1 / before - 1 / at.zoom);
    at.y += y / place.cellHeight * (1 / before - 1 / at.zoom);
    clamp();
    schedule();
  }

  function showAll() {
    at.zoom = 1;
    clamp();
    schedule();
  }

  /** @param {PointerEvent | WheelEvent} event */
  function inside(event) {
    const box = cells.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** @type {{x: number, y: number, moved: boolean} | undefined} */
  let drag;

  cells.addEventListener("pointermove", (event) => {
    const { x, y } = inside(event);
    if (drag && at.zoom > 1) {
      if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
      if (drag.moved) {
        at.x -= (x - drag.x) / (place.cellWidth * at.zoom);
        at.y -= (y - drag.y) / (place.cellHeight * at.zoom);
        Object.assign(drag, { x, y });
        clamp();
        schedule();
        return;
      }
    }
    const { rows, columns } = options.matrix;
    const column = Math.floor(x / (place.cellWidth * at.zoom) + at.x), row = Math.floor(y / (place.cellHeight * at.zoom) + at.y);
    if (row >= 0 && row < rows && column >= 0 && column < columns) point(row, column);
  });
  cells.addEventListener("pointerdown", (event) => {
    drag = { ...inside(event), moved: false };
    if (at.zoom > 1) cells.setPointerCapture(event.pointerId);
  });
  cells.addEventListener("pointerup", () => {
    if (drag && !drag.moved && hot.row >= 0) options.onSelect?.(hot.row);
    drag = undefined;
  });
  cells.addEventListener("pointercancel", () => { drag = undefined; });
  cells.addEventListener("pointerleave", () => { if (!drag) point(-1, -1); });
  cells.addEventListener("wheel", (event) => {
    const closer = event.deltaY < 0;
    if (closer ? at.zoom >= maxZoom() : at.zoom <= 1) return; // let the page scroll
    event.preventDefault();
    const { x, y } = inside(event);
    zoomBy(Math.exp(-Math.sign(event.deltaY) * Math.min(0.5, Math.abs(event.deltaY) / 300)), x, y);
  }, { passive: false });
  cells.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { rows, columns } = options.matrix;
    const ratio = devicePixelRatio || 1;
    const one = (/** @type {number} */ size) => 2 ** Math.max(0, Math.ceil(-Math.log2(size * at.zoom * ratio))) * (event.shiftKey ? 10 : 1);
    const down = one(place.cellHeight), right = one(place.cellWidth);
    const start = { row: hot.row >= 0 ? hot.row : options.selected ?? Math.floor(at.y), column: Math.max(0, hot.column) };
    const fresh = hot.row < 0;
    const moves = /** @type {Record<string, [number, number]>} */ ({
      ArrowUp: [-down, 0], ArrowDown: [down, 0], ArrowLeft: [0, -right], ArrowRight: [0, right],
      Home: [0, -columns], End: [0, columns], PageUp: [-10 * down, 0], PageDown: [10 * down, 0],
    });
    const move = moves[event.key];
    if (move) {
      const [dr, dc] = fresh ? [0, 0] : move;
      const row = Math.min(rows - 1, Math.max(0, start.row + dr)), column = Math.min(columns - 1, Math.max(0, start.column + dc));
      point(row, column);
      reveal(row, column);
    } else if (event.key === "+" || event.key === "=") zoomAtPoint(1.6);
    else if (event.key === "-") zoomAtPoint(1 / 1.6);
    else if (event.key === "0") showAll();
    else if (event.key === "Escape" && hot.row >= 0) point(-1, -1);
    else if ((event.key === "Enter" || event.key === " ") && start.row >= 0) options.onSelect?.(start.row);
    else return;
    event.preventDefault();
  });

  /** @param {number} factor */
  function zoomAtPoint(factor) {
    if (hot.row < 0) return zoomBy(factor);
    const x = (hot.column + 0.5 - at.x) * place.cellWidth * at.zoom, y = (hot.row + 0.5 - at.y) * place.cellHeight * at.zoom;
    return zoomBy(factor, x, y);
  }

  /** Scroll until the cell is visible. @param {number} row @param {number} column */
  function reveal(row, column) {
    const { rows, columns } = options.matrix;
    at.x = Math.min(column, Math.max(at.x, column + 1 - columns / at.zoom));
    at.y = Math.min(row, Math.max(at.y, row + 1 - rows / at.zoom));
    clamp();
    schedule();
  }

  function whole() {
    theme = themeOf(element);
    layOut();
    drawLegend();
    say.textContent = sentence(hot.row >= 0 ? hot.row : options.selected ?? -1, hot.column);
    cancelAnimationFrame(waiting);
    draw(); // immediately: resizing clears a canvas
  }

  readMatrix();
  whole();
  const size = new ResizeObserver(() => { if (Math.max(120, element.clientWidth) !== place.total) whole(); });
  size.observe(element);
  const endTheme = onThemeChange(whole);

  return {
    /** Update weights, words or selection; missing options stay. @param {Partial<HeatmapOptions>} data */
    update(data) {
      const before = options.matrix;
      options = { ...options, ...data };
      if (Object.keys(data).every((key) => key === "selected")) {
        say.textContent = sentence(hot.row >= 0 ? hot.row : options.selected ?? -1, hot.column);
        return schedule();
      }
      words = { ...WORDS, ...options.words };
      const { rows, columns } = options.matrix;
      if (before.rows !== rows || before.columns !== columns) {
        hot = { row: -1, column: -1 };
        at.zoom = 1;
      }
      if (before !== options.matrix || "largest" in data || "least" in data) readMatrix();
      return whole();
    },
    /** Highlight a row and a column from outside, e.g. when a word elsewhere is pointed at. @param {number} row @param {number} column */
    highlight(row, column) {
      point(row, column, false);
    },
    destroy() {
      cancelAnimationFrame(waiting);
      size.disconnect();
      endTheme();
      view.remove();
    },
    /** @returns {Promise<Blob>} */
    toPNG() {
      draw();
      const ratio = devicePixelRatio || 1, canvas = document.createElement("canvas");
      canvas.width = base.width;
      canvas.height = base.height;
      const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      pen.fillStyle = theme.colours.paper;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(base, 0, 0);
      pen.drawImage(cells, place.left * ratio, place.top * ratio);
      return new Promise((resolve, reject) => {
        canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("heatmap: the browser made no picture."))), "image/png");
      });
    },
    toSVG() {
      draw();
      const { left, top, width, height } = place, total = left + width + 2, tall = top + height + 2;
      const family = escapeXml(getComputedStyle(view).fontFamily || "sans-serif");
      const parts = [
        `<svg xmlns="http://www.w3.org/2000/svg" width="${total}" height="${tall}" viewBox="0 0 ${total} ${tall}" font-family="${family}" font-size="${FONT}">`,
        `<title>${escapeXml(options.label ?? words.heatmap)}</title>`,
        `<rect width="100%" height="100%" fill="${theme.colours.paper}"/>`,
        svgCells(), `<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="none" stroke="${theme.colours.line}"/>`,
      ];
      for (const { text, middle } of labels("rows")) {
        parts.push(`<text x="${left - 8}" y="${top + middle}" dy=".35em" text-anchor="end" fill="${theme.colours.ink}">${escapeXml(text)}</text>`);
      }
      for (const { text, middle } of labels("columns")) {
        const x = left + middle, y = top - 9;
        const turn = place.slanted && /\D/.test(text) ? `transform="rotate(-53 ${x} ${y})"` : 'text-anchor="middle"';
        parts.push(`<text x="${x}" y="${y}" ${turn} fill="${theme.colours.ink}">${escapeXml(text)}</text>`);
      }
      return `${parts.join("\n")}\n</svg>\n`;
    },
  };

  function svgCells() {
    const { rows, columns, values } = options.matrix;
    const { left, top, width, height, cellWidth, cellHeight } = place;
    const least = options.least ?? 0;
    if (values.length > 20000 || at.zoom > 1) {
      return `<image x="${left}" y="${top}" width="${width}" height="${height}" href="${cells.toDataURL()}"/>`;
    }
    const parts = [`<g shape-rendering="crispEdges">`];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const level = levelOf(values[row * columns + column] - least, scaleEnd - least);
        if (!level) continue;
        const fill = `rgb(${colourOf(level / 255, theme.dark, row === options.selected).join(",")})`;
        parts.push(`<rect x="${left + column * cellWidth}" y="${top + row * cellHeight}" width="${cellWidth}" height="${cellHeight}" fill="${fill}"/>`);
      }
    }
    return `${parts.join("")}</g>`;
  }
}
