// What the Point room computes itself. Pure functions.

/**
 * Whether two lists are the same corners in the same direction, from any start.
 * @param {number[]} a
 * @param {number[]} b
 */
export function sameCycle(a, b) {
  if (a.length !== b.length) return false;
  if (!a.length) return true;
  const start = b.indexOf(a[0]);
  return start >= 0 && a.every((each, i) => each === b[(start + i) % b.length]);
}

/**
 * The number of positions at which two lists agree.
 * @param {number[]} a
 * @param {number[]} b
 */
export function agreeing(a, b) {
  return b.filter((each, i) => each === a[i]).length;
}

/**
 * The area of a polygon.
 * @param {number[][]} points
 * @param {number[]} order
 */
export function area(points, order) {
  let twice = 0;
  order.forEach((each, i) => {
    const [x, y] = points[each];
    const [u, v] = points[order[(i + 1) % order.length]];
    twice += x * v - u * y;
  });
  return Math.abs(twice) / 2;
}

/**
 * Group corners in threes; an incomplete triangle is left out.
 * @param {number[]} order
 */
export function triangles(order) {
  return Array.from({ length: Math.floor(order.length / 3) }, (_, i) => order.slice(3 * i, 3 * i + 3));
}
