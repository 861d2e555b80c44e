// Softmax inside a band and its gradient, for local_cpu.py: no library, no allocation, one thread.
//
// Query t of one item sees low[t] <= s <= high[t], and |s - p[t]| <= half if centres are predicted; then
// exp(-(s - p)² / 2σ²), σ = half / 2, multiplies the weights after the softmax. Keys and values are read in place.

typedef float vec __attribute__((vector_size(32), aligned(4)));

extern "C" float expf(float);

static const long LANES = 8;
static const long RUN = 128;  // keys per partial sum: a long serial sum in single precision loses digits

static inline vec load(const float *p) { return *(const vec *)p; }
static inline void store(float *p, vec x) { *(vec *)p = x; }
static inline vec all(float x) { return vec{x, x, x, x, x, x, x, x}; }

static inline float dot(const float *a, const float *b, long n) {
    vec sum = all(0);
    float rest = 0;
    long i = 0;
    for (; i + LANES <= n; i += LANES) sum += load(a + i) * load(b + i);
    for (; i < n; i++) rest += a[i] * b[i];
    return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7])) + rest;
}

// y += c x
static inline void add(float *y, const float *x, float c, long n) {
    long i = 0;
    for (; i + LANES <= n; i += LANES) store(y + i, load(y + i) + c * load(x + i));
    for (; i < n; i++) y[i] += c * x[i];
}

// y += part, and reset part to zero
static inline void carry(float *y, float *part, long n) {
    for (long i = 0; i < n; i++) y[i] += part[i], part[i] = 0;
}

struct Band {
    long first, last;  // empty if first > last
};

static inline Band band(long low, long high, const float *p, float half, long S) {
    if (p && *p != *p) return Band{0, -1};  // the query is NaN
    if (p) {  // one more on each side than can be inside: the subtraction below decides, as elsewhere
        long begin = (long)__builtin_floorf(*p - half), end = (long)__builtin_floorf(*p + half) + 1;
        low = begin > low ? begin : low, high = end < high ? end : high;
    }
    return Band{low > 0 ? low : 0, high < S - 1 ? high : S - 1};
}

static inline bool inside(long s, const float *p, float half) { return !p || __builtin_fabsf((float)s - *p) <= half; }

static inline float gauss(long s, const float *p, float half) {
    if (!p) return 1.0f;
    float distance = (float)s - *p, sigma = half / 2;
    return expf(-(distance * distance) / (2 * sigma * sigma));
}

// softmax of the band into w; false where nothing is visible
static bool softmax(const float *q, const float *k, Band b, const float *p, float half, float scale, float *w, long D) {
    float most = -__builtin_inff();
    double sum = 0;
    for (long s = b.first; s <= b.last; s++) {
        float score = inside(s, p, half) ? dot(q, k + s * D, D) * scale : -__builtin_inff();
        w[s - b.first] = score;
        most = score <= most ? most : score;  // NaN stays
    }
    if (most == -__builtin_inff()) return false;
    for (long i = 0; i <= b.last - b.first; i++) sum += w[i] = expf(w[i] - most);
    for (long i = 0; i <= b.last - b.first; i++) w[i] /= (float)sum;
    return true;
}

// out (T, V) for q (T, D), k (S, D), v (S, V); p may be null; `w` has room for the widest band and a row of v
static void forward(const float *q, const float *k, const float *v, const long long *low, const long long *high, const float *p,
                   float *out, float *w, long room, long T, long S, long D, long V, float half, float scale) {
    float *part = w + room;
    for (long i = 0; i < V; i++) part[i] = 0;
    for (long t = 0; t < T; t++) {
        const float *centre = p ? p + t : 0;
        float *row = out + t * V;
        for (long i = 0; i < V; i++) row[i] = p ? *centre - *centre : 0;  // NaN if the centre is not finite
        Band b = band(low[t], high[t], centre, half, S);
        if (!softmax(q + t * D, k, b, centre, half, scale, w, D)) continue;
        for (long s = b.first; s <= b.last; s++) {
            if (w[s - b.first] != 0.0f) add(part, v + s * V, w[s - b.first] * gauss(s, centre, half), V);
            if (s == b.last || (s - b.first) % RUN == RUN - 1) carry(row, part, V);
        }
    }
}

// writes grad_q (T, D) and grad_p (T), adds to grad_k (S, D) and grad_v (S, V); `w` has room for two bands and a row of k
static void backward(const float *g, const float *q, const float *k, const float *v, const long long *low,
                     const long long *high, const float *p, float *grad_q, float *grad_k, float *grad_v, float *grad_p,
                     float *w, long room, long T, long S, long D, long V, float half, float scale) {
    float *slopes = w + room, *part = slopes + room;
    for (long i = 0; i < D; i++) part[i] = 0;
    for (long t = 0; t < T; t++) {
        const float *centre = p ? p + t : 0, *outer = g + t * V, *query = q + t * D;
        float *row = grad_q + t * D, sigma = half / 2;
        double mean = 0, of_p = 0;
        for (long i = 0; i < D; i++) row[i] = 0;
        if (p) grad_p[t] = *centre - *centre;
        Band b = band(low[t], high[t], centre, half, S);
        if (!softmax(query, k, b, centre, half, scale, w, D)) continue;
        for (long s = b.first; s <= b.last; s++) {
            float weight = w[s - b.first], factor = gauss(s, centre, half);
            float slope = dot(outer, v + s * V, V) * factor;  // d loss / d weight before the factor
            slopes[s - b.first] = slope;
            mean += slope * weight;
            if (p) of_p += slope * weight * ((float)s - *centre);
            if (weight != 0.0f) add(grad_v + s * V, outer, weight * factor, V);
        }
        if (p) grad_p[t] = (float)of_p / (sigma * sigma);
        for (long s = b.first; s <= b.last; s++) {
            float slope = w[s - b.first] * (slopes[s - b.first] - (float)mean) * scale;
            if (slope != 0.0f) {
                add(part, k + s * D, slope, D);
                add(grad_k + s * D, query, slope, D);
            }
            if (s == b.last || (s - b.first) % RUN == RUN - 1) carry(row, part, D);
        }
    }
}

extern "C" {

// N items in sequence
void local_forward(const float *q, const float *k, const float *v, const long long *low, const long long *high, const float *p,
                   float *out, float *w, long room, long N, long T, long S, long D, long V, float half, float scale) {
    for (long n = 0; n < N; n++)
        forward(q + n * T * D, k + n * S * D, v + n * S * V, low + n * T, high + n * T, p ? p + n * T : 0, out + n * T * V, w,
                room, T, S, D, V, half, scale);
}

void local_backward(const float *g, const float *q, const float *k, const float *v, const long long *low,
                    const long long *high, const float *p, float *grad_q, float *grad_k, float *grad_v, float *grad_p,
                    float *w, long room, long N, long T, long S, long D, long V, float half, float scale) {
    for (long n = 0; n < N; n++)
        backward(g + n * T * V, q + n * T * D, k + n * S * D, v + n * S * V, low + n * T, high + n * T, p ? p + n * T : 0,
                 grad_q + n * T * D, grad_k + n * S * D, grad_v + n * S * V, p ? grad_p + n * T : 0, w, room, T, S, D, V,
                 half, scale);
}

}  // extern "C"
