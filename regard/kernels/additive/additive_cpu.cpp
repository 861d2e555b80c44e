// The two inner loops of additive attention, for additive_cpu.py: no library, no allocation, one thread.
//
// x = A·B = exp(2(a + b)) is the product of two exponentials taken outside; r = 1 / (1 + x); tanh(a + b) = 1 - 2r.
// x is cut: at 2^30 for a score, where tanh is 1 to the last bit long before, and the product of two factors stays below 2^61;
// at 2^60 for a gradient, whose r is as small as it should be.
// Positions come in panels of 16, (D, 16) each, so that sixteen of them are one vector and every load is whole.

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

// w1 tanh1 + w2 tanh2 with tanh = (x - 1) / (x + 1), two to a division: four would be no faster here, and less exact. The sum of
// w / (1 + x), which is the same up to a constant, has one operation less for each, and twice the rounding.
static inline vec two(float a1, float a2, vec b1, vec b2, float w1, float w2) {
    vec x1 = cut(a1, b1, SATURATED), x2 = cut(a2, b2, SATURATED), y1 = 1.0f + x1, y2 = 1.0f + x2;
    return (w1 * (x1 - 1.0f) * y2 + w2 * (x2 - 1.0f) * y1) / (y1 * y2);
}

static inline vec four(const float *a, const vec *b, const float *w) {
    return two(a[0], a[1], b[0], b[1], w[0], w[1]) + two(a[2], a[3], b[2], b[3], w[2], w[3]);
}

// R rows against one panel: each load of the panel serves them all
template <int R>
static inline void rows(const float *A, const float *panel, const float *w, float *out, long D, long stride) {
    const long block = 64;  // features summed before they join the total: the rounding of long sums stays small
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

// the sums of two features over rows m0 to m1, in short pieces: the rounding of long sums stays small
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

extern "C" {

// out[t, s] = Σ_d w_d tanh(a + b), for rows A (T, D) and panels B (P, D, 16); out has P·16 columns; D % 4 == 0
void additive_scores(const float *A, const float *B, const float *w, float *out, long T, long D, long P) {
    for (long p = 0; p < P; p++) {
        const float *panel = B + p * D * LANES;
        long t = 0;
        for (; t + 2 <= T; t += 2) rows<2>(A + t * D, panel, w, out + (t * P + p) * LANES, D, P * LANES);
        if (t < T) rows<1>(A + t * D, panel, w, out + (t * P + p) * LANES, D, P * LANES);
    }
}

// first[p, d, n] += Σ_m g r and slope[p, d, n] += Σ_m g r (1 - r), for panels own (P, D, 16), rows other (M, D) and
// g (M, P·16), whose rows are `stride` apart; D % 2 == 0. Both gradients of a score are sums of `slope`, that of v is a sum of `first`.
void additive_sums(const float *own, const float *other, const float *g, float *first, float *slope,
                   long M, long D, long P, long stride) {
    const long block = 128;  // rows of g and other that stay in the first-level cache
    for (long m0 = 0; m0 < M; m0 += block) {
        long m1 = m0 + block < M ? m0 + block : M;
        for (long p = 0; p < P; p++)
            for (long d = 0; d < D; d += 2)
                for (long half = 0; half < LANES; half += HALF) {
                    long at = (p * D + d) * LANES + half;
                    const float *rows = other + d, *weights = g + p * LANES + half;
                    two_features(own + at, rows, weights, first + at, slope + at, m0, m1, D, stride);
                }
    }
}

// both for N items, one after the other in memory: many short ones are not worth a call each
void additive_scores_of_items(const float *A, const float *B, const float *w, float *out, long N, long T, long D,
                              long P) {
    for (long n = 0; n < N; n++)
        additive_scores(A + n * T * D, B + n * P * D * LANES, w, out + n * T * P * LANES, T, D, P);
}

void additive_sums_of_items(const float *own, const float *other, const float *g, float *first, float *slope, long N,
                            long M, long D, long P) {
    for (long n = 0; n < N; n++) {
        long at = n * P * D * LANES;
        additive_sums(own + at, other + n * M * D, g + n * M * P * LANES, first + at, slope + at, M, D, P, P * LANES);
    }
}

}  // extern "C"
