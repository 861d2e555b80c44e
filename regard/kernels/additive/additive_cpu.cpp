// The inner loops of additive attention, for additive_cpu.py and additive_step_cpu.py: no allocation, one thread.
//
// x = A·B = exp(2(a + b)) is the product of two exponentials computed by the caller; r = 1 / (1 + x); tanh(a + b) = 1 - 2r.
// x is clamped: to 2^30 for a score, where tanh is 1 to the last bit long before, so that the product of two factors stays
// below 2^61; to 2^60 for a gradient, which needs small r to be accurate.
// Positions come in panels of 16, (D, 16) each, so that every load is a whole vector of positions.

#include <cmath>

typedef float vec __attribute__((vector_size(32), aligned(4)));

static const long LANES = 16, HALF = 8;
static const float SATURATED = 1073741824.0f, VANISHED = 1152921504606846976.0f;

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec x) { *(vec *)p = x; }
static inline vec all(float x) { return vec{x, x, x, x, x, x, x, x}; }

// min(A·B, most); written so that NaN stays NaN
static inline vec cut(float a, vec b, float most) {
    vec x = a * b;
    return all(most) < x ? all(most) : x;
}

// w1 tanh1 + w2 tanh2 with tanh = (x - 1) / (x + 1), one division for two: for four it would be no faster here, and less accurate.
// The sum of w / (1 + x), which is the same up to a constant, takes one operation less per feature but doubles the rounding error.
static inline vec two(float a1, float a2, vec b1, vec b2, float w1, float w2) {
    vec x1 = cut(a1, b1, SATURATED), x2 = cut(a2, b2, SATURATED), y1 = 1.0f + x1, y2 = 1.0f + x2;
    return (w1 * (x1 - 1.0f) * y2 + w2 * (x2 - 1.0f) * y1) / (y1 * y2);
}

static inline vec four(const float *a, const vec *b, const float *w) {
    return two(a[0], a[1], b[0], b[1], w[0], w[1]) + two(a[2], a[3], b[2], b[3], w[2], w[3]);
}

// R rows against one panel: each load of the panel is shared by all of them
template <int R>
static inline void rows(const float *A, const float *panel, const float *w, float *out, long D, long stride) {
    const long block = 64;  // features per partial sum, which keeps the rounding of long sums small
    for (int half = 0; half < LANES; half += HALF) {
        vec total[R];
        for (int i = 0; i < R; i++) total[i] = all(0);
        for (long d0 = 0; d0 < D; d0 += block) {
            long d1 = d0 + block < D ? d0 + block : D;
            vec sum[R];
            for (int i = 0; i < R; i++) sum[i] = all(0);
            for (long d = d0; d < d1; d += 4) {
                const float *b = panel + d * LANES + half;
                vec column[4] = {load(b), load(b + LANES), load(b + 2 * LANES), load(b + 3 * LANES)};
                for (int i = 0; i < R; i++) sum[i] += four(A + i * D + d, column, w + d);
            }
            for (int i = 0; i < R; i++) total[i] += sum[i];
        }
        for (int i = 0; i < R; i++) store(out + i * stride + half, total[i]);
    }
}

// the sums of two features over rows m0 to m1, in short pieces, which keeps the rounding of long sums small
static inline void two_features(const float *own, const float *other, const float *g, float *first, float *slope,
                                long m0, long m1, long D, long stride) {
    const long piece = 16;
    vec b1 = load(own), b2 = load(own + LANES);
    vec f1 = load(first), f2 = load(first + LANES), s1 = load(slope), s2 = load(slope + LANES);
    for (long start = m0; start < m1; start += piece) {
        long end = start + piece < m1 ? start + piece : m1;
        vec e1 = all(0), e2 = all(0), c1 = all(0), c2 = all(0);
        for (long m = start; m < end; m++) {
            vec r1 = 1.0f / (1.0f + cut(other[m * D], b1, VANISHED)), r2 = 1.0f / (1.0f + cut(other[m * D + 1], b2, VANISHED));
            vec weight = load(g + m * stride);
            vec h1 = weight * r1, h2 = weight * r2;
            e1 += h1, e2 += h2;
            c1 += h1 - h1 * r1, c2 += h2 - h2 * r2;
        }
        f1 += e1, f2 += e2, s1 += c1, s2 += c2;
    }
    store(first, f1), store(first + LANES, f2);
    store(slope, s1), store(slope + LANES, s2);
}

// out[0..D) = Σ_s w_s values[s], in short pieces, which keeps the rounding of long sums small
static void weighted(const float *w, const float *values, float *out, long low, long high, long D) {
    const long piece = 32;
    for (long d = 0; d < D; d++) out[d] = 0;
    float part[256];
    for (long d0 = 0; d0 < D; d0 += 256) {
        long width = D - d0 < 256 ? D - d0 : 256;
        for (long s0 = low; s0 <= high; s0 += piece) {
            long s1 = s0 + piece - 1 < high ? s0 + piece - 1 : high;
            for (long d = 0; d < width; d++) part[d] = 0;
            for (long s = s0; s <= s1; s++) {
                const float *row = values + s * D + d0;
                for (long d = 0; d < width; d++) part[d] += w[s] * row[d];
            }
            for (long d = 0; d < width; d++) out[d0 + d] += part[d];
        }
    }
}

// one row of scores -> its weights, zero outside low..high
static void softmax(const float *scores, float *weights, float scale, long low, long high, long S) {
    for (long s = 0; s < S; s++) weights[s] = 0;
    if (low > high) return;
    float most = -INFINITY;
    for (long s = low; s <= high; s++) most = scores[s] * scale > most ? scores[s] * scale : most;
    double total = 0;
    for (long s = low; s <= high; s++) {
        weights[s] = (float)std::exp((double)(scores[s] * scale - most));
        total += weights[s];
    }
    for (long s = low; s <= high; s++) weights[s] = (float)(weights[s] / total);
}

static inline float dot(const float *x, const float *y, long n) {
    vec sum[2] = {all(0), all(0)};
    long i = 0;
    for (; i + 2 * HALF <= n; i += 2 * HALF)
        sum[0] += load(x + i) * load(y + i), sum[1] += load(x + i + HALF) * load(y + i + HALF);
    sum[0] += sum[1];
    float total = 0;
    for (int j = 0; j < HALF; j++) total += sum[0][j];
    for (; i < n; i++) total += x[i] * y[i];
    return total;
}

static inline void add(float *__restrict to, const float *__restrict x, float factor, long n) {
    for (long i = 0; i < n; i++) to[i] += factor * x[i];
}

// From the gradient of one row of scores to those of a, of the keys' b and of v. p and q are short partial sums over positions.
static inline void tanh_slopes(const float *__restrict A, const float *__restrict keys, const float *__restrict v,
                               const float *__restrict slope, float *__restrict p, float *__restrict q,
                               float *__restrict grad_a, float *__restrict grad_keys, float *__restrict grad_v, long S, long D) {
    const long piece = 16;
    for (long start = 0; start < S; start += piece) {
        long end = start + piece < S ? start + piece : S;
        for (long d = 0; d < D; d++) p[d] = q[d] = 0;
        for (long s = start; s < end; s++) {
            float g = slope[s];
            if (g == 0.0f) continue;
            const float *__restrict b = keys + s * D;
            float *__restrict to = grad_keys + s * D;
            for (long d = 0; d < D; d++) {
                float x = A[d] * b[d];
                x = x > VANISHED ? VANISHED : x;
                float r = 1.0f / (1.0f + x), inner = 4.0f * g * v[d] * (r - r * r);
                to[d] += inner;
                p[d] += inner;
                q[d] += g * (1.0f - 2.0f * r);
            }
        }
        for (long d = 0; d < D; d++) grad_a[d] += p[d], grad_v[d] += q[d];
    }
}

extern "C" {

// out[n, t, s] = Σ_d w_d tanh(a + b), for rows A (N, T, D) and panels B (N, P, D, 16); out has P·16 columns; D % 4 == 0
void additive_scores(const float *A, const float *B, const float *w, float *out, long N, long T, long D, long P) {
    for (long n = 0; n < N; n++, A += T * D, B += P * D * LANES, out += T * P * LANES)
        for (long p = 0; p < P; p++) {
            const float *panel = B + p * D * LANES;
            long t = 0;
            for (; t + 2 <= T; t += 2) rows<2>(A + t * D, panel, w, out + (t * P + p) * LANES, D, P * LANES);
            if (t < T) rows<1>(A + t * D, panel, w, out + (t * P + p) * LANES, D, P * LANES);
        }
}

// first[n, p, d, i] += Σ_m g r and slope[n, p, d, i] += Σ_m g r (1 - r), for panels own (N, P, D, 16), rows other (N, M, D) and
// g (N, M, P·16), whose rows are `stride` apart; D % 2 == 0. Both gradients of a score are sums of `slope`, that of v is a sum of `first`.
void additive_sums(const float *own, const float *other, const float *g, float *first, float *slope,
                   long N, long M, long D, long P, long stride) {
    const long block = 128;  // rows of g and other that stay in the L1 cache
    for (long n = 0; n < N; n++, other += M * D, g += M * stride) {
        for (long m0 = 0; m0 < M; m0 += block) {
            long m1 = m0 + block < M ? m0 + block : M;
            for (long p = 0; p < P; p++)
                for (long d = 0; d < D; d += 2)
                    for (long half = 0; half < LANES; half += HALF) {
                        long at = ((n * P + p) * D + d) * LANES + half;
                        const float *rows = other + d, *weights = g + p * LANES + half;
                        two_features(own + at, rows, weights, first + at, slope + at, m0, m1, D, stride);
                    }
        }
    }
}

// A decoder's step, for additive_step_cpu.py: scores, softmax and context of a few queries, from the exponentials of the keys.
// a (N, T, D), panels (N, P, D, 16), v (D), values (N, S, Dv), lengths (N / share) or null -> scores and weights (N, T, S), context
// (N, T, Dv). Query t sees positions from t + offset - left to t + offset + right; a negative bound means none. `rows` has room for
// T·D numbers, `wide` for T·P·16. a is clamped to ±largest: beyond, the result is saturated whatever the keys are.
void additive_step(const float *a, const float *panels, const float *v, const float *values, const long *lengths, long share,
                   long left, long right, long offset, float scale, float largest, float *rows, float *wide,
                   float *scores, float *weights, float *context, long N, long T, long S, long D, long P, long Dv) {
    for (long n = 0; n < N; n++) {
        for (long i = 0; i < T * D; i++) {
            float x = a[n * T * D + i];
            x = x > largest ? largest : x < -largest ? -largest : x;
            rows[i] = (float)std::exp(2.0 * (double)x);
        }
        additive_scores(rows, panels + n * P * D * LANES, v, wide, 1, T, D, P);
        long length = lengths ? lengths[n / share] : S;
        for (long t = 0; t < T; t++) {
            long place = t + offset, at = n * T + t;
            long low = left < 0 || place - left < 0 ? 0 : place - left;
            long high = right < 0 || place + right > S - 1 ? S - 1 : place + right;
            high = high < length - 1 ? high : length - 1;
            float *own = scores + at * S;
            for (long s = 0; s < S; s++) own[s] = s < low || s > high ? -INFINITY : wide[t * P * LANES + s];
            softmax(own, weights + at * S, scale, low, high, S);
            weighted(weights + at * S, values + n * S * Dv, context + at * Dv, low, high, Dv);
        }
    }
}

// Its backward, from the gradients of context, scores and weights, any of which may be null. keys (N, S, D) are e^{2b}. Adds to
// grad_a and grad_v (N, T, D), grad_keys and grad_values. `room` has space for S + 3 D numbers.
void additive_step_backward(const float *a, const float *keys, const float *v, const float *values, const float *weights,
                            const float *of_context, const float *of_scores, const float *of_weights, float scale,
                            float largest, float *room, float *grad_a, float *grad_keys, float *grad_v, float *grad_values,
                            long N, long T, long S, long D, long Dv) {
    float *slope = room, *A = room + S;
    for (long at = 0; at < N * T; at++) {
        const float *weight = weights + at * S, *own = values + at / T * S * Dv;
        for (long s = 0; s < S; s++) {
            slope[s] = of_weights ? of_weights[at * S + s] : 0.0f;
            if (of_context && weight[s] != 0.0f) {
                slope[s] += dot(of_context + at * Dv, own + s * Dv, Dv);
                add(grad_values + (at / T * S + s) * Dv, of_context + at * Dv, weight[s], Dv);
            }
        }
        float mean = dot(slope, weight, S);
        for (long s = 0; s < S; s++) {
            slope[s] = weight[s] == 0.0f ? 0.0f : (slope[s] - mean) * weight[s] * scale;
            if (of_scores) slope[s] += of_scores[at * S + s];
        }
        for (long d = 0; d < D; d++) {
            float x = a[at * D + d];
            A[d] = (float)std::exp(2.0 * (double)(x > largest ? largest : x < -largest ? -largest : x));
        }
        tanh_slopes(A, keys + at / T * S * D, v, slope, A + D, A + 2 * D, grad_a + at * D, grad_keys + at / T * S * D,
                    grad_v + at * D, S, D);
    }
}

}  // extern "C"
